// SPDX-License-Identifier: Apache-2.0
/// A conversion from its strategies to its files' bytes: each step gives what it gives with memory,
/// or an error, and leaves nothing open.
#include "reshardfs/conversion.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "conversion/completeness.h"
#include "conversion/conversion_tables.h"
#include "failing_allocations.h"
#include "golden_case.h"
#include "plan/traffic/traffic.h"

namespace reshardfs::no_memory {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> contents_of(const Conversion& conversion) {
  std::map<std::string, std::string> contents;
  for (const OutputFile& output : conversion.files()) {
    if (output.path.starts_with(".reshardfs")) continue;  // tells of the moment
    read_whole(*output.file, contents[output.path]);
  }
  return contents;
}

class Conversions : public testing::TestWithParam<std::string> {
 protected:
  const ConversionOptions options_ = options_of_case(GetParam());
};

TEST_P(Conversions, ArePlannedOrFail) {
  const auto figures_of = [](const ConversionTables& tables) {
    std::vector<std::uint64_t> figures;
    for (const Rank rank : tables.ranks) {
      for (const SourceTraffic& traffic : traffic_of(*tables.target, rank)) {
        figures.push_back(traffic.bytes);
      }
    }
    return figures;
  };
  const auto open = [this] {
    auto tables = std::make_unique<ConversionTables>(open_tables(options_));
    require_complete(*tables->target, tables->ranks);
    return tables;
  };
  const auto expected = figures_of(*open());
  const auto descriptors = open_descriptors();
  std::unique_ptr<ConversionTables> opened;
  with_some_failing([&] { opened = open(); },
                    [&] {
                      // What was opened in spite of it is whole.
                      if (opened != nullptr) {
                        EXPECT_EQ(figures_of(*opened), expected);
                      }
                      opened.reset();
                      EXPECT_EQ(open_descriptors(), descriptors);
                    });
}

TEST_P(Conversions, AreOpenedOrFail) {
  const auto figures_of = [](const Conversion& conversion) {
    std::map<std::string, std::uint64_t> sizes;
    for (const OutputFile& output : conversion.files()) sizes[output.path] = output.file->size();
    return sizes;
  };
  ConversionOptions options = options_;
  options.rank_params = true;
  const auto expected = figures_of(Conversion::open(options));
  const auto descriptors = open_descriptors();
  std::optional<Conversion> opened;
  with_some_failing([&] { opened = Conversion::open(options); },
                    [&] {
                      if (opened) {
                        EXPECT_EQ(figures_of(*opened), expected);
                      }
                      opened.reset();
                      EXPECT_EQ(open_descriptors(), descriptors);
                    });
}

TEST_P(Conversions, AreReadOrFail) {
  const Conversion conversion = Conversion::open(options_);
  const auto expected = contents_of(conversion);
  const auto descriptors = open_descriptors();
  std::string got;
  for (const OutputFile& output : conversion.files()) {
    if (!expected.contains(output.path)) continue;
    const std::string& right = expected.at(output.path);
    got.reserve(right.size());
    SCOPED_TRACE(output.path);
    bool whole = false;
    const std::size_t stride =
        1 + allocations_of(Threads::kAll, [&] { read_whole(*output.file, got); }) / 10;
    with_each_failing(
        Threads::kAll,
        [&] {
          whole = false;
          read_whole(*output.file, got);
          whole = true;
        },
        [&] {
          if (whole) {
            EXPECT_EQ(got, right);
          }
          read_whole(*output.file, got);
          EXPECT_EQ(got, right);
        },
        stride);
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

INSTANTIATE_TEST_SUITE_P(Golden, Conversions, testing::Values("dp2tp2_to_tp4", "tp4_to_pp2tp2"));

/// The reference of the tests above is what MindSpore's converter wrote.
TEST_P(Conversions, AreThoseOfTheOriginal) {
  const auto contents = contents_of(Conversion::open(options_));
  std::size_t compared = 0;
  const fs::path destination = fs::path(RESHARDFS_GOLDEN_DIR) / GetParam() / "dst";
  for (const auto& entry : fs::recursive_directory_iterator(destination)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().lexically_relative(destination).string();
    ASSERT_TRUE(contents.contains(path)) << path;
    EXPECT_EQ(contents.at(path), text_of(entry.path())) << path;
    ++compared;
  }
  EXPECT_GT(compared, 0U);
}

}  // namespace
}  // namespace reshardfs::no_memory
