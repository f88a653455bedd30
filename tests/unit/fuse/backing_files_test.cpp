// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/backing_files.h"

#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "storage/descriptor_pool.h"
#include "support/errors.h"
#include "support/in_child.h"
#include "support/recorded_log.h"
#include "support/sources.h"

namespace reshardfs {
namespace {

/// A source that is open at a descriptor of its own, and changes when it is told to.
class OpenSource final : public test::Decorator {
 public:
  OpenSource() : Decorator(std::make_shared<test::MemorySource>("bytes")) {}
  void check_unchanged() const override {
    if (changed) throw Error(ErrorKind::kChanged, "has been changed").in_file(name());
  }
  DescriptorPtr descriptor() const override { return std::make_shared<const Descriptor>(-1); }

  std::atomic<bool> changed = false;
};

class File final : public VirtualFile {
 public:
  explicit File(ByteSourcePtr source = nullptr) : source_(std::move(source)) {}
  std::uint64_t size() const override { return 5; }
  void read_at(std::uint64_t, std::span<std::byte>) const override {}
  ByteSourcePtr equal_source() const override {
    ++asked;
    return source_;
  }

  mutable std::atomic<int> asked = 0;

 private:
  ByteSourcePtr source_;
};

/// A kernel that numbers what it is given from 1 on, or refuses it.
struct BackingFilesTest : testing::Test {
  std::int32_t add(int) {
    if (refusal != 0) return refusal == kNothing ? 0 : -refusal;
    listed.insert(++last);
    return last;
  }

  /// As a refusal: neither a number nor an errno.
  static constexpr int kNothing = -1;

  int refusal = 0;
  std::int32_t last = 0;
  std::set<std::int32_t> listed;
  BackingFiles files{{.add = [this](int descriptor) { return add(descriptor); },
                      .remove = [this](std::int32_t number) { listed.erase(number); }}};
  std::shared_ptr<OpenSource> source = std::make_shared<OpenSource>();
  File equal{source};
  File other;
};

TEST_F(BackingFilesTest, OpeningsOfOneFileShareItsSourceUntilTheLastIsClosed) {
  EXPECT_EQ(files.open(7, equal), 1);
  EXPECT_EQ(files.open(7, equal), 1);
  EXPECT_EQ(equal.asked, 1);
  EXPECT_EQ(files.close(7), source);
  EXPECT_EQ(listed, std::set<std::int32_t>{1});
  EXPECT_EQ(files.close(7), source);
  EXPECT_EQ(listed, std::set<std::int32_t>{});
  EXPECT_EQ(files.open(7, equal), 2);
  files.close(7);
}

TEST_F(BackingFilesTest, FilesWithoutAnEqualSourceHaveNone) {
  EXPECT_EQ(files.open(7, other), BackingFiles::kNone);
  EXPECT_EQ(files.close(7), nullptr);
  const File in_memory(std::make_shared<test::MemorySource>("bytes"));
  EXPECT_EQ(files.open(8, in_memory), BackingFiles::kNone);
  EXPECT_EQ(files.close(8), nullptr);
  EXPECT_EQ(last, 0);
}

TEST_F(BackingFilesTest, AnOpenFileStaysAsItWasOpenedWhenTheKernelChangesItsMind) {
  refusal = EPERM;
  EXPECT_EQ(files.open(7, equal), BackingFiles::kNone);
  refusal = 0;
  EXPECT_EQ(files.open(7, equal), BackingFiles::kNone);
  files.close(7);
  EXPECT_EQ(files.close(7), nullptr);
  EXPECT_EQ(files.open(7, equal), 1);
  refusal = EPERM;
  EXPECT_EQ(files.open(7, equal), 1);
  files.close(7);
  files.close(7);
}

TEST_F(BackingFilesTest, ChecksTheSourceAtEachOpening) {
  EXPECT_EQ(files.open(7, equal), 1);
  source->changed = true;
  test::expect_error(ErrorKind::kChanged, {"memory.ckpt"}, [&] { files.open(7, equal); });
  EXPECT_EQ(listed, std::set<std::int32_t>{1});  // of the first opening
  EXPECT_EQ(files.close(7), source);
  EXPECT_EQ(listed, std::set<std::int32_t>{});
  test::expect_error(ErrorKind::kChanged, {"memory.ckpt"}, [&] { files.open(7, equal); });
  EXPECT_EQ(files.close(7), nullptr);  // it was never opened
  EXPECT_EQ(last, 1);
}

TEST_F(BackingFilesTest, TriesAFileOutAndLeavesNothing) {
  files.try_out();
  EXPECT_EQ(last, 1);
  EXPECT_EQ(listed, std::set<std::int32_t>{});
  test::in_child([this] {
    test::refuse_call(SYS_memfd_create, ENOMEM);
    files.try_out();
    EXPECT_EQ(last, 1) << "there was no file to try";
  });
}

TEST_F(BackingFilesTest, SayOnceWhyTheKernelRefusesThem) {
  const std::string begin = "warning: no passthrough: the kernel refuses ";
  const std::string end = "; reads go through reshardfs\n";
  const struct {
    int error;
    std::string reason;
  } cases[] = {{EPERM, "this process lacks the capability SYS_ADMIN"},
               {ELOOP, "it is on a file system that itself lies on another (overlayfs)"},
               {EINVAL, "Invalid argument"},
               {kNothing, "Success"}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.reason);
    const test::CaughtLog log;
    refusal = each.error;
    listed = {0};
    BackingFiles tried({.add = [this](int descriptor) { return add(descriptor); },
                        .remove = [this](std::int32_t number) { listed.erase(number); }});
    tried.try_out();
    tried.open(7, equal);
    EXPECT_EQ(tried.close(7), nullptr);
    EXPECT_EQ(log.text(), begin + "backing files: " + each.reason + end);
    EXPECT_EQ(listed, std::set<std::int32_t>{0});
  }
  const test::CaughtLog log;
  refusal = EPERM;
  files.open(7, equal);
  files.close(7);
  EXPECT_EQ(log.text(), begin + "'memory.ckpt': " + cases[0].reason + end);
}

TEST(BackingFiles, AreOneForEachFileHoweverManyThreadsOpenIt) {
  std::mutex mutex;
  std::int32_t last = 0;
  std::set<std::int32_t> listed;
  std::size_t most = 0;
  BackingFiles files({.add =
                          [&](int) {
                            const std::lock_guard lock(mutex);
                            listed.insert(++last);
                            most = std::max(most, listed.size());
                            return last;
                          },
                      .remove =
                          [&](std::int32_t number) {
                            const std::lock_guard lock(mutex);
                            listed.erase(number);
                          }});
  const auto source = std::make_shared<OpenSource>();
  const File file(source);
  std::atomic<int> wrong = 0;
  // One opening is always there, so that no other may find another number.
  const std::int32_t first = files.open(7, file);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        if (files.open(7, file) != first) ++wrong;
        if (files.close(7) != source) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(most, 1U);
  files.close(7);
  EXPECT_EQ(listed, std::set<std::int32_t>{});
}

}  // namespace
}  // namespace reshardfs
