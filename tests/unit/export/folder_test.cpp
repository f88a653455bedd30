// SPDX-License-Identifier: Apache-2.0
#include "export/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

TEST(Folder, MakesDirectoriesAndFindsThem) {
  const test::TempDir directory;
  const Folder root = Folder::open(directory.path());
  EXPECT_FALSE(root.find("a/b"));
  EXPECT_EQ(root.make("a/b").path(), directory.path() / "a/b");
  EXPECT_TRUE(fs::is_directory(directory.path() / "a/b"));
  EXPECT_TRUE(root.find("a/b"));
  EXPECT_EQ(root.make("a/b").path(), directory.path() / "a/b");
  EXPECT_EQ(root.find({})->path(), directory.path());
  root.make("a").sync();
}

TEST(Folder, FollowsALinkOnlyWhereTheUserNamesIt) {
  const test::TempDir directory;
  directory.make_directory("real/below");
  fs::create_directory_symlink("real", directory.path() / "link");
  EXPECT_TRUE(Folder::open(directory.path() / "link").find("below"));
  const Folder root = Folder::open(directory.path());
  for (const char* path : {"link", "link/below", "link/new"}) {
    test::expect_error(ErrorKind::kUsage, {"link", "symbolic link"}, [&] { root.make(path); });
    test::expect_error(ErrorKind::kUsage, {"link", "symbolic link"}, [&] { root.find(path); });
  }
  EXPECT_FALSE(fs::exists(directory.path() / "real/new"));
}

TEST(Folder, SaysThatAFileIsInTheWay) {
  const test::TempDir directory;
  directory.write("file", "x");
  const Folder root = Folder::open(directory.path());
  test::expect_error(ErrorKind::kUsage, {"file", "in the place of a directory"},
                     [&] { root.make("file/below"); });
  test::expect_error(ErrorKind::kUsage, {"file", "not a directory"},
                     [&] { Folder::open(directory.path() / "file"); });
  test::expect_error(ErrorKind::kMissing, {"none", "no such directory"},
                     [&] { Folder::open(directory.path() / "none"); });
}

TEST(Folder, LooksAtWhatIsThereItself) {
  const test::TempDir directory;
  directory.write("file", "three");
  fs::create_symlink("file", directory.path() / "link");
  ASSERT_EQ(::mkfifo((directory.path() / "pipe").c_str(), 0600), 0);
  const Folder root = Folder::open(directory.path());
  EXPECT_EQ(root.look_at("file")->st_size, 5);
  EXPECT_TRUE(S_ISLNK(root.look_at("link")->st_mode));
  EXPECT_FALSE(root.look_at("none"));
  EXPECT_TRUE(root.open_file("file", O_RDONLY));
  EXPECT_FALSE(root.open_file("link", O_RDONLY));
  EXPECT_EQ(errno, ELOOP);
  EXPECT_TRUE(root.open_file("pipe", O_RDONLY)) << "without a wait for a writer";
}

TEST(IsPlainPath, HasNoWayOut) {
  for (const char* path : {"a", "a/b", "..a", ".a/b..", "a b"}) EXPECT_TRUE(is_plain_path(path));
  for (const char* path : {"", "/", "/a", "..", "a/..", "a/../b", ".", "a/./b", "a//", "a/"}) {
    EXPECT_FALSE(is_plain_path(path)) << path;
  }
}

}  // namespace
}  // namespace reshardfs
