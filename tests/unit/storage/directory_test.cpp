// SPDX-License-Identifier: Apache-2.0
#include "storage/local/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "storage/local/linkless_tree.h"
#include "support/errors.h"
#include "support/in_child.h"
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

TEST(ListDirectory, LooksWhereTheFileSystemTellsNoKinds) {
  const TempDir dir;
  dir.make_directory("directory");
  dir.write("file", "x");
  std::filesystem::create_symlink("directory", dir.path() / "link");
  std::filesystem::create_symlink("nowhere", dir.path() / "dangling");
  const Descriptor opened(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::string seen;
  for (const std::string name : {"directory", "file", "link", "dangling", "gone"}) {
    dirent found{};
    found.d_type = DT_UNKNOWN;
    name.copy(found.d_name, sizeof(found.d_name) - 1);
    const DirectoryEntry entry = entry_of(opened.get(), found);
    seen += entry.name + (entry.is_directory ? "/" : "") + (entry.is_regular ? "." : "") +
            (entry.is_link ? "@ " : " ");
  }
  EXPECT_EQ(seen, "directory/ file. link/@ dangling@ gone ");
}

TEST(ListDirectory, SaysThatItCannotBeRead) {
  const TempDir dir;
  test::in_child([&] {
    test::refuse_call(SYS_getdents64, EIO);
    expect_error(ErrorKind::kIo, {"list directory", dir.path().string()},
                 [&] { list_directory(dir.path()); });
  });
}

TEST(ListDirectory, SaysWhatIsWrong) {
  const TempDir dir;
  expect_error(ErrorKind::kMissing, {"absent", "no such directory"},
               [&] { list_directory(dir.path() / "absent"); });
  expect_error(ErrorKind::kBadInput, {"file", "not a directory"},
               [&] { list_directory(dir.write("file", "x")); });
}

TEST(RealPath, FollowsLinksToWhatDoesNotExist) {
  const TempDir dir;
  const std::filesystem::path root = std::filesystem::canonical(dir.path());
  std::filesystem::create_symlink("second", root / "first");
  std::filesystem::create_symlink(root / "a/none", root / "second");
  std::filesystem::create_symlink("loop", root / "loop");
  EXPECT_EQ(real_path(root / "first"), root / "a/none");
  EXPECT_EQ(real_path(root / "first/x/../y"), root / "first/y") << "no directory can be made there";
  EXPECT_EQ(real_path(root / "loop"), root / "loop");
  for (int i = 1; i <= 42; ++i) {
    std::filesystem::create_symlink(i == 1 ? "none" : std::to_string(i - 1),
                                    root / std::to_string(i));
  }
  EXPECT_EQ(real_path(root / "40"), root / "none");
  EXPECT_EQ(real_path(root / "42"), root / "42") << "more than the kernel follows";
  EXPECT_EQ(real_path(""), "");
}

TEST(IsInside, KnowsADirectoryByItsOtherNames) {
  const TempDir dir;
  dir.make_directory("a/b");
  dir.make_directory("c");
  std::filesystem::create_directory_symlink("a", dir.path() / "link");
  EXPECT_TRUE(is_inside(dir.path() / "a/b", dir.path() / "a"));
  EXPECT_TRUE(is_inside(dir.path() / "a/b", dir.path() / "link"));
  EXPECT_TRUE(is_inside(dir.path() / "link/b/not/yet", dir.path() / "a"));
  EXPECT_FALSE(is_inside(dir.path() / "c", dir.path() / "a"));
  EXPECT_FALSE(is_inside(dir.path() / "a", dir.path() / "a/b"));
  EXPECT_FALSE(is_inside(dir.path() / "a/b", dir.path() / "gone"));
}

TEST(IsLink, SaysWhatCannotBeExamined) {
  const std::string path = "/" + std::string(300, 'x');
  expect_error(ErrorKind::kIo, {"examine", "too long"}, [&] { is_link(path); });
  expect_error(ErrorKind::kIo, {"examine", "too long"}, [&] { path_kind(path); });
  EXPECT_FALSE(is_link("http://h/a"));
}

TEST(IsLink, LooksAtThePathItself) {
  const TempDir dir;
  std::filesystem::create_symlink("file", dir.path() / "link");
  EXPECT_FALSE(is_link(dir.write("file", "x")));
  EXPECT_TRUE(is_link(dir.path() / "link"));
  EXPECT_FALSE(is_link(dir.path() / "absent"));
  EXPECT_FALSE(is_link(dir.path() / "file/below"));
}

TEST(PathKind, TellsDirectoriesFromTheRest) {
  const TempDir dir;
  EXPECT_EQ(path_kind(dir.path()), PathKind::kDirectory);
  EXPECT_EQ(path_kind(dir.write("file", "x")), PathKind::kOther);
  EXPECT_EQ(path_kind(dir.path() / "absent"), PathKind::kMissing);
  EXPECT_EQ(path_kind(dir.path() / "file/below"), PathKind::kMissing);
}

TEST(KnownMtime, IsThatOfAFile) {
  const TempDir dir;
  const auto path = dir.write("f", "x");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  const std::int64_t mtime = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
  EXPECT_EQ(known_mtime_ns(path, nullptr), mtime);
  EXPECT_EQ(known_mtime_ns(path, std::make_shared<const LinklessTree>(dir.path())), mtime);
  const auto gone = dir.path() / "gone";
  EXPECT_EQ(known_mtime_ns(gone, nullptr), 0);
  EXPECT_EQ(known_mtime_ns(gone, std::make_shared<const LinklessTree>(dir.path())), 0);
  EXPECT_EQ(known_mtime_ns("http://h/a", nullptr), 0);
}

/// A tree whose files change while they are read.
class ChangingTree final : public SourceTree {
 public:
  class File final : public ByteSource {
   public:
    const std::string& name() const override { return name_; }
    std::uint64_t size() const override { return 4; }
    std::int64_t mtime_ns() const override { return 7; }
    void read_at(std::uint64_t /*offset*/, std::span<std::byte> /*out*/) const override {}
    void check_unchanged() const override {
      throw Error(ErrorKind::kChanged, "the test has changed it").in_file(name_);
    }

   private:
    const std::string name_ = "changing";
  };
  ByteSourcePtr open_source(const std::filesystem::path& /*path*/) const override {
    return std::make_shared<File>();
  }
  std::vector<DirectoryEntry> list(const std::filesystem::path& /*path*/) const override {
    return {};
  }
  PathKind kind(const std::filesystem::path& /*path*/) const override { return PathKind::kOther; }
};

class ForgetfulTree final : public SourceTree {
 public:
  ByteSourcePtr open_source(const std::filesystem::path& /*path*/) const override { return {}; }
  std::vector<DirectoryEntry> list(const std::filesystem::path& /*path*/) const override {
    return {};
  }
  PathKind kind(const std::filesystem::path& /*path*/) const override { return PathKind::kOther; }
  std::int64_t known_mtime_ns(const std::filesystem::path& /*path*/) const override {
    throw std::bad_alloc();
  }
};

TEST(KnownMtime, IsUnknownInATreeThatTellsNone) {
  EXPECT_EQ(known_mtime_ns("f", std::make_shared<const ChangingTree>()), 0);
}

TEST(KnownMtime, IsUnknownWithoutMemory) {
  EXPECT_EQ(known_mtime_ns("f", std::make_shared<const ForgetfulTree>()), 0);
}

TEST(ReadSmallFile, RefusesWhatChangesMeanwhile) {
  expect_error(ErrorKind::kChanged, {"changing"},
               [] { read_small_file("f", 9, std::make_shared<const ChangingTree>()); });
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
