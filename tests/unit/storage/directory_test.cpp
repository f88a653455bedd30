// SPDX-License-Identifier: Apache-2.0
#include "storage/local/directory.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::TempDir;

TEST(ListDirectory, SortsByBytesAndFollowsLinks) {
  const TempDir dir;
  dir.write("b", "x");
  dir.write("B", "x");
  dir.make_directory("a10");
  dir.make_directory("a9");
  std::filesystem::create_symlink("a9", dir.path() / "link");
  std::filesystem::create_symlink("nowhere", dir.path() / "dangling");
  const auto entries = list_directory(dir.path());
  std::string seen;
  for (const DirectoryEntry& entry : entries) {
    seen += entry.name + (entry.is_directory ? "/" : "") + (entry.is_regular ? "." : "") +
            (entry.is_link ? "@ " : " ");
  }
  EXPECT_EQ(seen, "B. a10/ a9/ b. dangling@ link/@ ");
}

TEST(ListDirectory, SaysWhatIsWrong) {
  const TempDir dir;
  expect_error(ErrorKind::kMissing, {"absent", "no such directory"},
               [&] { list_directory(dir.path() / "absent"); });
  expect_error(ErrorKind::kBadInput, {"file", "not a directory"},
               [&] { list_directory(dir.write("file", "x")); });
}

TEST(IsLink, LooksAtThePathItself) {
  const TempDir dir;
  std::filesystem::create_symlink("file", dir.path() / "link");
  EXPECT_FALSE(is_link(dir.write("file", "x")));
  EXPECT_TRUE(is_link(dir.path() / "link"));
  EXPECT_FALSE(is_link(dir.path() / "absent"));
}

TEST(PathKind, TellsDirectoriesFromTheRest) {
  const TempDir dir;
  EXPECT_EQ(path_kind(dir.path()), PathKind::kDirectory);
  EXPECT_EQ(path_kind(dir.write("file", "x")), PathKind::kOther);
  EXPECT_EQ(path_kind(dir.path() / "absent"), PathKind::kMissing);
  EXPECT_EQ(path_kind(dir.path() / "file/below"), PathKind::kMissing);
}

TEST(ReadSmallFile, ReadsUpToTheLimit) {
  const TempDir dir;
  const auto path = dir.write("f", std::string("a\0b", 3));
  EXPECT_EQ(read_small_file(path, 3), std::string("a\0b", 3));
  expect_error(ErrorKind::kBadInput, {"f: ", "has 3 bytes", "at most 2"},
               [&] { read_small_file(path, 2); });
  expect_error(ErrorKind::kMissing, {"absent"}, [&] { read_small_file(dir.path() / "absent", 9); });
  expect_error(ErrorKind::kBadInput, {"directory"}, [&] { read_small_file(dir.path(), 9); });
  EXPECT_EQ(read_small_file(dir.write("empty", ""), 0), "");
}

}  // namespace
}  // namespace reshardfs
