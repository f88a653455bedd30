// SPDX-License-Identifier: Apache-2.0
#include "cli/write_file.h"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t entries(const fs::path& directory) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST(WriteFile, ReplacesAFileOnlyIfItMay) {
  const test::TempDir directory;
  const fs::path path = directory.path() / "file";
  write_file(path, "first", false);
  test::expect_error(ErrorKind::kUsage, {"file", "exists already", "--force"},
                     [&] { write_file(path, "second", false); });
  EXPECT_EQ(text_of(path), "first");
  write_file(path, "third", true);
  EXPECT_EQ(text_of(path), "third");
  EXPECT_EQ(entries(directory.path()), 1U);
}

TEST(WriteFile, LeavesNothingIfTheTextEndsWithAnError) {
  const test::TempDir directory;
  const auto produce = [](const TextSink& out) {
    out("half");
    throw Error(ErrorKind::kIo, "no more");
  };
  test::expect_error(ErrorKind::kIo, {"no more"},
                     [&] { write_output((directory.path() / "file").string(), false, produce); });
  EXPECT_EQ(entries(directory.path()), 0U);
}

TEST(WriteFile, WritesPieceByPiece) {
  const test::TempDir directory;
  const fs::path path = directory.path() / "file";
  write_output(path.string(), false, [](const TextSink& out) {
    for (const char* text : {"one ", "", "two ", "three"}) out(text);
  });
  EXPECT_EQ(text_of(path), "one two three");
}

TEST(WriteFile, NeedsADirectoryAndAName) {
  const test::TempDir directory;
  test::expect_error(ErrorKind::kMissing, {"none", "no such directory"},
                     [&] { write_file(directory.path() / "none/file", "x", false); });
  test::expect_error(ErrorKind::kUsage, {"not a file name"},
                     [&] { write_file(directory.path() / "", "x", false); });
}

}  // namespace
}  // namespace reshardfs
