// SPDX-License-Identifier: Apache-2.0
#include "storage/local/linkless_tree.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "storage/local/directory.h"
#include "support/errors.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TempDir;

/// How the tree opens files: 0 for openat2(), else the error that it fails with.
class LinklessTreeBy : public ::testing::TestWithParam<int> {
 protected:
  LinklessTreeBy() {
    dir_.write("source/rank_0/a.ckpt", "good");
    dir_.write("outside/a.ckpt", "evil");
  }

  /// In a child process, which a filter of system calls stays with.
  void check(const std::function<void()>& work) {
    if (GetParam() == 0) return work();
    test::in_child([&] {
      test::refuse_call(SYS_openat2, GetParam());
      work();
    });
  }

  LinklessTreePtr tree() const { return std::make_shared<const LinklessTree>(source_); }
  std::string read(const fs::path& path) const { return read_small_file(path, 100, tree()); }

  TempDir dir_;
  fs::path source_ = dir_.path() / "source";
  fs::path file_ = source_ / "rank_0/a.ckpt";
};

TEST_P(LinklessTreeBy, OpensWhatIsBelowIt) {
  check([this] {
    EXPECT_EQ(read(file_), "good");
    EXPECT_EQ(list_directory(source_, tree()).size(), 1U);
    EXPECT_EQ(list_directory(source_ / "rank_0", tree()).front().name, "a.ckpt");
    EXPECT_EQ(path_kind(source_, tree()), PathKind::kDirectory);
    EXPECT_EQ(path_kind(source_ / "rank_0/", tree()), PathKind::kDirectory);
    EXPECT_EQ(path_kind(file_, tree()), PathKind::kOther);
    EXPECT_EQ(path_kind(source_ / "rank_0/b", tree()), PathKind::kMissing);
    EXPECT_EQ(path_kind(file_ / "b", tree()), PathKind::kMissing);
    expect_error(ErrorKind::kMissing, {"rank_1"}, [&] { read(source_ / "rank_1/a.ckpt"); });
    expect_error(ErrorKind::kBadInput, {"directory"}, [&] { read(source_ / "rank_0"); });
  });
}

TEST_P(LinklessTreeBy, MayBeginAtALinkAndWithASlash) {
  fs::create_directory_symlink("source", dir_.path() / "link");
  check([this] {
    for (const char* const root : {"link", "link/", "source/", "./source"}) {
      const fs::path path = dir_.path() / root;
      const auto tree = std::make_shared<const LinklessTree>(path);
      EXPECT_EQ(read_small_file(path / "rank_0/a.ckpt", 9, tree), "good") << root;
    }
  });
}

TEST_P(LinklessTreeBy, RefusesLinksWhereverTheyStand) {
  fs::create_symlink("a.ckpt", source_ / "rank_0/link");
  fs::create_symlink("/nowhere", source_ / "rank_0/broken");
  fs::create_directory_symlink("rank_0", source_ / "rank_1");
  fs::create_directory_symlink(dir_.path() / "outside", source_ / "rank_2");
  check([this] {
    for (const char* const name :
         {"rank_0/link", "rank_0/broken", "rank_1/a.ckpt", "rank_2/a.ckpt"}) {
      expect_error(ErrorKind::kBadInput, {name, "symbolic link", "--no-symlinks"},
                   [&] { read(source_ / name); });
      expect_error(ErrorKind::kBadInput, {name, "symbolic link"},
                   [&] { path_kind(source_ / name, tree()); });
    }
    for (const char* const name : {"rank_1", "rank_2"}) {
      expect_error(ErrorKind::kBadInput, {name, "symbolic link", "--no-symlinks"},
                   [&] { list_directory(source_ / name, tree()); });
    }
  });
}

TEST_P(LinklessTreeBy, RefusesPathsThatLeadOut) {
  check([this] {
    for (const fs::path& path : {source_ / "../outside/a.ckpt", dir_.path() / "outside/a.ckpt",
                                 source_ / "..", source_ / "rank_0/../../outside/a.ckpt"}) {
      expect_error(ErrorKind::kBadInput, {"out of the source"}, [&] { read(path); });
    }
  });
}

TEST_P(LinklessTreeBy, AsksForNoKindOutOfTheSource) {
  check([this] {
    const LinklessTreePtr own = tree();
    for (const fs::path& path : {source_ / "..", source_ / "../outside"}) {
      errno = 0;
      expect_error(ErrorKind::kBadInput, {"out of the source"}, [&] { path_kind(path, own); });
    }
  });
}

/// An error of an earlier call stays in errno when the next one succeeds.
TEST(LinklessTree, OpensAFileOnce) {
  const TempDir dir;
  const fs::path file = dir.write("a.ckpt", "good");
  const LinklessTree tree(dir.path());
  const int next = Descriptor(::dup(STDERR_FILENO)).get();
  errno = EPERM;
  const Descriptor opened(tree.open(file, O_RDONLY));
  EXPECT_EQ(opened.get(), next);
}

TEST(LinklessTree, IsThatOfADirectoryThatHasThePath) {
  const TempDir dir;
  const fs::path file = dir.write("a.ckpt", "good");
  EXPECT_NE(linkless_tree_of(dir.path(), file), nullptr);
  EXPECT_EQ(linkless_tree_of(dir.path(), "/elsewhere/a.ckpt"), nullptr);
  EXPECT_EQ(linkless_tree_of("", file), nullptr);
  EXPECT_EQ(linkless_tree_of(file, file), nullptr);
  EXPECT_EQ(linkless_tree_of(dir.path() / "absent", dir.path() / "absent/a.ckpt"), nullptr);
  EXPECT_EQ(linkless_tree_of("s3://bucket", "s3://bucket/a.ckpt"), nullptr);
}

/// A file is a link for half of the time.
TEST_P(LinklessTreeBy, NeverOpensAFileThatIsExchangedForALink) {
  const fs::path other = source_ / "rank_0/other";
  fs::create_symlink(dir_.path() / "outside/a.ckpt", other);
  check([&] {
    int opened = 0;
    int refused = 0;
    std::jthread exchange([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        ::syscall(SYS_renameat2, AT_FDCWD, file_.c_str(), AT_FDCWD, other.c_str(), 2);
      }
    });
    for (int i = 0; i < 100'000 && (opened < 200 || refused < 200); ++i) {
      try {
        EXPECT_EQ(read(file_), "good");
        ++opened;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kBadInput) << error.what();
        ++refused;
      }
    }
    EXPECT_GT(opened, 0);
    EXPECT_GT(refused, 0);
  });
}

TEST_P(LinklessTreeBy, NeverEntersADirectoryThatIsExchangedForALink) {
  const fs::path other = source_ / "rank_9";
  fs::create_directory_symlink(dir_.path() / "outside", other);
  check([&] {
    int opened = 0;
    int refused = 0;
    std::jthread exchange([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        ::syscall(SYS_renameat2, AT_FDCWD, (source_ / "rank_0").c_str(), AT_FDCWD, other.c_str(),
                  2);
      }
    });
    for (int i = 0; i < 100'000 && (opened < 200 || refused < 200); ++i) {
      try {
        EXPECT_EQ(read(file_), "good");
        ++opened;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kBadInput) << error.what();
        ++refused;
      }
    }
    EXPECT_GT(opened, 0);
    EXPECT_GT(refused, 0);
  });
}

/// A file that was closed for want of descriptors.
TEST_P(LinklessTreeBy, RefusesALinkWhenAFileIsOpenedAgain) {
  check([this] {
    DescriptorPool pool(0, 1);
    const ByteSourcePtr source = open_local_file(file_, pool, tree());
    source->check_unchanged();
    pool.close_idle();
    fs::rename(file_, source_ / "moved");
    fs::create_symlink("../moved", file_);
    expect_error(ErrorKind::kBadInput, {"symbolic link"}, [&] { source->check_unchanged(); });
  });
}

INSTANTIATE_TEST_SUITE_P(TheKernel, LinklessTreeBy, ::testing::Values(0));
INSTANTIATE_TEST_SUITE_P(Steps, LinklessTreeBy, ::testing::Values(ENOSYS, EPERM));

}  // namespace
}  // namespace reshardfs
