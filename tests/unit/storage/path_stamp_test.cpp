// SPDX-License-Identifier: Apache-2.0
#include "storage/local/path_stamp.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// As a file whose writer keeps its times, or does not.
void set_mtime(const fs::path& path, std::time_t time) {
  const std::array<timespec, 2> times{timespec{time, 0}, timespec{time, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
}

TEST(PathStamp, IsEmptyWhereNothingIs) {
  const test::TempDir dir;
  EXPECT_EQ(path_stamp(dir.path() / "absent"), "");
  EXPECT_EQ(path_stamp(dir.write("file", "x") / "below"), "");
  fs::create_symlink("itself", dir.path() / "itself");
  EXPECT_EQ(path_stamp(dir.path() / "itself"), "");
}

TEST(PathStamp, SaysWhatCannotBeExamined) {
  test::expect_error(ErrorKind::kIo, {"examine", "too long"},
                     [] { path_stamp("/" + std::string(300, 'x')); });
}

TEST(PathStamp, TellsOneFileFromAnother) {
  const test::TempDir dir;
  const fs::path file = dir.write("file", "x");
  set_mtime(file, 1000);
  const std::string before = path_stamp(file);
  EXPECT_EQ(path_stamp(file), before);
  dir.write("file", "xy");
  set_mtime(file, 1000);
  EXPECT_NE(path_stamp(file), before) << "the size is another one";
  const std::string longer = path_stamp(file);
  const fs::path other = dir.write("other", "xy");
  set_mtime(other, 1000);
  fs::rename(other, file);
  EXPECT_NE(path_stamp(file), longer) << "it is another file";
}

TEST(PathStamp, OfADirectoryTellsNothingOfItsFiles) {
  const test::TempDir dir;
  const fs::path file = dir.write("step/file", "x");
  set_mtime(file.parent_path(), 1000);
  const std::string before = path_stamp(file.parent_path());
  dir.write("step/file", "xy");
  EXPECT_EQ(path_stamp(file.parent_path()), before);
  dir.write("step/more", "x");
  EXPECT_NE(path_stamp(file.parent_path()), before);
}

TEST(TreeStamp, TellsOfAllThatLiesBelow) {
  const test::TempDir dir;
  dir.write("step/rank_0/file", "x");
  const fs::path step = dir.path() / "step";
  std::string last = tree_stamp(step);
  EXPECT_EQ(tree_stamp(step), last);
  const auto changes = [&] {
    const std::string now = tree_stamp(step);
    return std::exchange(last, now) != now;
  };
  dir.write("step/rank_0/file", "xy");
  EXPECT_TRUE(changes());
  dir.write("step/rank_1/file", "x");
  EXPECT_TRUE(changes());
  fs::rename(step / "rank_1/file", step / "rank_1/renamed");
  EXPECT_TRUE(changes());
  fs::remove_all(step);
  EXPECT_TRUE(changes());
  EXPECT_FALSE(changes());
}

TEST(TreeStamp, TellsOfNamesAndOfAnEmptyDirectory) {
  const test::TempDir dir;
  const fs::path step = dir.path() / "step";
  fs::create_directories(step / "rank_0");
  set_mtime(step, 1000);
  const std::string before = tree_stamp(step);
  fs::rename(step / "rank_0", step / "rank_1");
  set_mtime(step, 1000);
  EXPECT_NE(tree_stamp(step), before);
  fs::remove(step / "rank_1");
  set_mtime(step, 1000);
  const std::string empty = tree_stamp(step);
  set_mtime(step, 2000);
  EXPECT_NE(tree_stamp(step), empty);
}

TEST(TreeStamp, TellsWhereANameEnds) {
  const test::TempDir dir;
  const fs::path step = dir.make_directory("step");
  const auto stamp_with_links = [&](const char* one, const char* other) {
    for (const char* const name : {one, other}) fs::create_symlink("nowhere", step / name);
    set_mtime(step, 1000);
    std::string stamp = tree_stamp(step);
    for (const char* const name : {one, other}) fs::remove(step / name);
    return stamp;
  };
  EXPECT_NE(stamp_with_links("a", "bc"), stamp_with_links("ab", "c"));
}

TEST(TreeStamp, SaysWhatCannotBeListed) {
  const test::TempDir dir;
  const fs::path step = dir.make_directory("step");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  test::expect_error(ErrorKind::kIo, {"open directory", "step"}, [&] { tree_stamp(step); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(TreeStamp, TellsOfFilesOnEachLevel) {
  const test::TempDir dir;
  const fs::path step = dir.path() / "step";
  std::string path = "step";
  for (int level = 1; level <= 6; ++level) {
    dir.write(path + "/file", "x");
    const std::string before = tree_stamp(step);
    dir.write(path + "/file", "xy");
    EXPECT_NE(tree_stamp(step), before) << path;
    path += "/below";
  }
}

TEST(TreeStamp, EndsWhereALinkLeadsUp) {
  const test::TempDir dir;
  dir.write("step/file", "x");
  fs::create_directory_symlink("..", dir.path() / "step/up");
  EXPECT_NE(tree_stamp(dir.path() / "step"), "");
}

}  // namespace
}  // namespace reshardfs
