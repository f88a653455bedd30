// SPDX-License-Identifier: Apache-2.0
/// Whole exports to a directory.
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "export/block_engine.h"
#include "export/single_file.h"
#include "exported.h"
#include "golden_case.h"
#include "support/temp_dir.h"

namespace reshardfs::no_memory {
namespace {

namespace fs = std::filesystem;

void is_written_or_fails(const ConversionOptions& options, std::size_t runs) {
  const test::TempDir places;
  const Exported exported(options);
  const auto descriptors = open_descriptors();
  int number = 0;
  const auto place = [&] {
    fs::remove_all(places.path() / std::to_string(number));
    return places.path() / std::to_string(++number);
  };
  const auto look = [](const fs::path& directory, const Exported::Contents& contents) {
    std::map<std::string, bool> there;
    for (const auto& [path, bytes] : contents) {
      const fs::path file = directory / path;
      if (fs::exists(file)) there[path] = text_of(file) == bytes;
    }
    return there;
  };
  exported.is_written_or_fails(place, look, runs);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(WholeExport, WritesWholeFilesOrNone) {
  ConversionOptions options = options_of_case("tp4_to_pp2tp2");
  options.views = {ViewKind::kRanks, ViewKind::kMergedCkpt};
  is_written_or_fails(options, 60);
}

TEST(WholeExport, OfSeveralBlocksIsWholeOrNotThere) {
  const LargeSource source;
  is_written_or_fails(source.options(), 30);
}

TEST(WholeExport, OfOneFileIsWholeOrNotThere) {
  const LargeSource source;
  const Conversion conversion = Conversion::open(source.options());
  const auto file = conversion.files().front().file;
  std::string expected;
  read_whole(*file, expected);
  const test::TempDir place;
  const fs::path path = place.path() / "whole model.safetensors";
  BlockEngineOptions engine;
  engine.workers = 2;
  const auto descriptors = open_descriptors();
  with_some_failing(
      [&] { export_file(file, path, "source", "identity", /*replace=*/false, engine); },
      [&] {
        if (fs::exists(path)) {
          EXPECT_TRUE(text_of(path) == expected);
          fs::remove(path);
        }
        EXPECT_TRUE(fs::is_empty(place.path()));
        EXPECT_EQ(open_descriptors(), descriptors);
      });
}

}  // namespace
}  // namespace reshardfs::no_memory
