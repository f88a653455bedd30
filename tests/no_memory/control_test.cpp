// SPDX-License-Identifier: Apache-2.0
/// What a mount says of itself, and of where its files' bytes come from.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/conversion.h"

#include "failing_allocations.h"
#include "golden_case.h"
#include "view/files/recent_texts.h"
#include "view/view.h"

namespace reshardfs::no_memory {
namespace {

/// As who opens it reads it.
std::string shown(const VirtualFile& file) {
  const auto present = file.snapshot();
  std::string text;
  read_whole(present != nullptr ? *present : file, text);
  return text;
}

/// Without what changes from one moment to the next: figures, and what stands in for more of them.
std::string steady(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0 || c == '\n'; });
  return text;
}

/// What is kept is made anew.
void forget_texts() {
  static const char owner = 0;
  constexpr std::size_t kMoreThanIsKept = std::size_t{16} << 20;
  recent_texts().get(&owner, [] { return std::string(kMoreThanIsKept, ' '); });
  recent_texts().forget(&owner);
}

void are_whole_or_fail(const std::vector<OutputFile>& files) {
  for (const OutputFile& output : files) {
    SCOPED_TRACE(output.path);
    forget_texts();
    const std::string expected = steady(shown(*output.file));
    EXPECT_FALSE(expected.empty());
    std::optional<std::string> got;
    forget_texts();
    with_some_failing(
        [&] {
          got.reset();
          got = shown(*output.file);
        },
        [&] {
          // This one tells of an error as its text.
          if (got && output.path != ".reshardfs/ready") {
            EXPECT_EQ(steady(*got), expected);
          }
          forget_texts();
          EXPECT_EQ(steady(shown(*output.file)), expected);
          forget_texts();
        });
  }
}

ConversionOptions options() {
  ConversionOptions options = options_of_case("dp2tp2_to_tp4");
  options.rank_params = true;
  return options;
}

TEST(ControlFiles, AreWholeOrFail) {
  const Conversion conversion = Conversion::open(options());
  std::vector<OutputFile> files;
  for (const OutputFile& output : conversion.files()) {
    if (output.path.starts_with(".reshardfs/")) files.push_back(output);
  }
  EXPECT_EQ(files.size(), 6U);
  are_whole_or_fail(files);
}

TEST(ControlFiles, OfAllStepsAreWholeOrFail) {
  are_whole_or_fail({all_steps_status(options()), all_steps_ready()});
}

TEST(ListsOfParameters, AreWholeOrFail) {
  const Conversion conversion = Conversion::open(options());
  std::vector<OutputFile> files;
  for (const OutputFile& output : conversion.files()) {
    const bool is_list = output.path.ends_with("params.json");
    if (is_list || (output.path.ends_with(".npy") && files.size() < 3)) files.push_back(output);
  }
  EXPECT_GT(files.size(), 3U);
  are_whole_or_fail(files);
}

TEST(Attributes, AreWholeOrFail) {
  ConversionOptions options = no_memory::options();
  options.views = {ViewKind::kRanks, ViewKind::kMerged, ViewKind::kDcp, ViewKind::kDcpHuggingFace};
  const Conversion conversion = Conversion::open(options);
  std::size_t count = 0;
  for (const OutputFile& output : conversion.files()) {
    for (const std::string& name : output.file->attribute_names()) {
      SCOPED_TRACE(output.path + " " + name);
      const auto expected = output.file->attribute(name);
      ASSERT_TRUE(expected);
      std::optional<std::string> got;
      with_some_failing(
          [&] {
            got.reset();
            got = output.file->attribute(name);
          },
          [&] {
            if (got) {
              EXPECT_EQ(got, expected);
            }
            EXPECT_EQ(output.file->attribute(name), expected);
          },
          20);
      ++count;
    }
  }
  EXPECT_GT(count, 5U);
}

}  // namespace
}  // namespace reshardfs::no_memory
