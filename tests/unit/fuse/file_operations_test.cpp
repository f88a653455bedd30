// SPDX-License-Identifier: Apache-2.0
/// Openings of files, those of a process before this one among them, and what the kernel reads
/// itself.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/process/counters.h"
#include "storage/descriptor_pool.h"
#include "support/sources.h"
#include "unit/fuse/operations_fixture.h"

namespace reshardfs::test {
namespace {

using testing::ElementsAre;

/// Its bytes are the same letter.
class Letters : public VirtualFile {
 public:
  explicit Letters(char letter, std::uint64_t size = 10) : letter_(letter), size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t, std::span<std::byte> out) const override {
    if (on_read) on_read();
    std::fill(out.begin(), out.end(), static_cast<std::byte>(letter_));
  }
  Effort effort() const noexcept override { return effort_of_reads; }
  std::shared_ptr<const VirtualFile> snapshot() const override {
    return on_snapshot ? on_snapshot() : nullptr;
  }
  ByteSourcePtr equal_source() const override {
    return on_equal_source ? on_equal_source() : nullptr;
  }

  Effort effort_of_reads = Effort::kReads;
  std::function<void()> on_read;
  std::function<std::shared_ptr<const VirtualFile>()> on_snapshot;
  std::function<ByteSourcePtr()> on_equal_source;

 private:
  char letter_;
  std::uint64_t size_;
};

class FileOperations : public OperationsTest {
 protected:
  using OperationsTest::OperationsTest;

  /// Shows `a` and `b`.
  void show() {
    TreeBuilder builder;
    builder.add_file("a", a);
    builder.add_file("b", b);
    source.show(std::make_shared<const Tree>(std::move(builder).build()));
  }
  InodeNumber node(const std::string& name) const {
    return source.current()->lookup(kRootInode, name)->inode;
  }
  KernelAnswer read(std::uint64_t inode, std::uint64_t handle, std::uint32_t size = 100) {
    return call(FUSE_READ, inode, read_body(handle, 0, size));
  }
  int close(std::uint64_t inode, std::uint64_t handle) {
    return error_of(FUSE_RELEASE, inode, release_body(handle));
  }
  /// The opening of a process before this one.
  std::uint64_t opened_before(std::uint64_t number, bool holds) {
    const std::uint64_t handle = opening_handle(number, holds);
    EXPECT_TRUE(served.openings->add(handle, StagedSource::kTreeOfFiles));
    return handle;
  }
  InodeNumber node_of(std::uint64_t handle) const {
    const OpenFilePtr open = served.files.find(handle);
    return open == nullptr ? 0 : open->inode;
  }

  std::shared_ptr<Letters> a = std::make_shared<Letters>('a');
  std::shared_ptr<Letters> b = std::make_shared<Letters>('b');
};

// --- openings ----------------------------------------------------------------------------------

TEST_F(FileOperations, AnOpeningIsKnownUntilItIsClosed) {
  show();
  const InodeNumber inode = node("a");
  const std::uint64_t handle = open(inode);
  EXPECT_EQ(served.files.confirmed().size(), 1U) << "for the next process";
  EXPECT_EQ(served.openings->tree_of(handle), StagedSource::kTreeOfFiles);
  // The kernel closes it when its tree has gone, too.
  source.show(std::make_shared<const Tree>(TreeBuilder().build()));
  EXPECT_EQ(read(inode, handle).body, "aaaaaaaaaa");
  const std::weak_ptr<Letters> held = std::exchange(a, nullptr);
  bool was_held = true;
  source.on_closed = [&] { was_held = !held.expired(); };
  EXPECT_EQ(close(inode, handle), 0);
  EXPECT_FALSE(was_held) << "the source may close its files with the last opening";
  EXPECT_THAT(source.closed_trees, ElementsAre(StagedSource::kTreeOfFiles));
  EXPECT_EQ(close(inode, handle), 0);
  EXPECT_EQ(source.closed_trees.size(), 1U) << "once";
}

TEST_F(FileOperations, AnOpeningThatFailsLeavesNothing) {
  a->on_snapshot = []() -> std::shared_ptr<const VirtualFile> { throw std::runtime_error("x"); };
  show();
  EXPECT_EQ(error_of(FUSE_OPEN, node("a"), open_body(0)), EIO);
  EXPECT_THAT(source.closed_trees, ElementsAre(StagedSource::kTreeOfFiles));
  source.has_files = false;
  EXPECT_EQ(error_of(FUSE_OPEN, node("b"), open_body(0)), ESTALE) << "it is too late";
  EXPECT_EQ(source.closed_trees.size(), 1U);
  EXPECT_EQ(served.files.count(), 0U);
  EXPECT_EQ(served.openings->count(), 0U);
}

TEST_F(FileOperations, AnOpeningThatAKilledProcessHasNotedCountsOnce) {
  show();
  const std::uint64_t handle = opened_before(kernel.next_unique(), false);
  EXPECT_EQ(open(node("a")), handle);
  EXPECT_THAT(source.closed_trees, ElementsAre(StagedSource::kTreeOfFiles))
      << "the source was told of it when this process began";
  EXPECT_EQ(node_of(handle), node("a"));
}

/// What the storage queue runs is run by one of its threads.
TEST_F(FileOperations, WhatMayWaitKeepsNoThreadFromAnsweringOthers) {
  const auto made = std::make_shared<Letters>('m', 0);
  std::optional<unsigned> at_opening;
  std::optional<unsigned> at_reading;
  made->on_snapshot = a->on_snapshot = [&]() -> std::shared_ptr<const VirtualFile> {
    at_opening = served.storage.threads_taken();
    return nullptr;
  };
  a->on_read = [&] { at_reading = served.storage.threads_taken(); };
  b = made;
  show();
  const std::uint64_t handle = open(node("a"));
  EXPECT_EQ(at_opening, 0U);
  EXPECT_EQ(read(node("a"), handle, 1).body, "a");
  EXPECT_EQ(at_reading, 1U);
  open(node("b"));
  EXPECT_EQ(at_opening, 1U);
}

TEST_F(FileOperations, AReadThatIsStuckIsDoneAgain) {
  std::atomic<bool> can_go_on = false;
  served.storage.on_spare_permits([&can_go_on](unsigned) {
    can_go_on = true;
    can_go_on.notify_all();
  });
  bool stuck = true;
  a->on_read = [&stuck] {
    const auto may_go_on = [] { return true; };
    if (std::exchange(stuck, false)) {
      throw StuckRead{std::make_shared<const std::function<bool()>>(may_go_on)};
    }
  };
  show();
  const std::uint64_t handle = open(node("a"));
  const auto before = counters().values();
  ask_in_vain(FUSE_READ, node("a"), read_body(handle, 0, 3));
  can_go_on.wait(false);
  served.storage.help();
  EXPECT_EQ(kernel.answer().body, "aaa");
  EXPECT_EQ(counters().values().read_errors, before.read_errors);
}

// --- of a process before this one --------------------------------------------------------------

TEST_F(FileOperations, AnOpeningOfAProcessBeforeIsKnownFromItsFirstRead) {
  show();
  const std::uint64_t plain = opened_before(100, false);
  const std::uint64_t text = opened_before(102, true);
  served.files.restore(text, std::make_shared<const OpenFile>(std::make_shared<Letters>('t', 3)));
  EXPECT_EQ(read(node("a"), plain).body, "aaaaaaaaaa");
  EXPECT_EQ(node_of(plain), node("a"));
  EXPECT_EQ(read(node("b"), text).body, "ttt") << "as it was handed over";
  EXPECT_EQ(node_of(text), node("b"));
  // Afterwards each is that of its file.
  EXPECT_EQ(read(node("b"), plain).body, "bbbbbbbbbb");
  EXPECT_EQ(read(node("a"), text).error, ESTALE);
  EXPECT_EQ(node_of(plain), node("a"));
  EXPECT_EQ(node_of(text), node("b"));
}

TEST_F(FileOperations, AReadThatFindsNoFileIsCountedWithItsError) {
  constexpr std::size_t kStale = 1;
  ASSERT_EQ(kReadErrorNames.at(kStale), "ESTALE");
  const auto before = counters().values();
  EXPECT_EQ(read(4711, 0).error, ESTALE);
  EXPECT_EQ(counters().values().read_errors.at(kStale), before.read_errors.at(kStale) + 1);
}

TEST_F(FileOperations, AReadAtTheEndIsCountedAsDone) {
  show();
  const std::uint64_t handle = open(node("a"));
  const auto before = counters().values();
  EXPECT_EQ(call(FUSE_READ, node("a"), read_body(handle, 10, 5)).body, "");
  const auto after = counters().values();
  EXPECT_EQ(after.reads.count(), before.reads.count() + 1);
  EXPECT_EQ(after.read_errors, before.read_errors);
}

// --- what the kernel reads itself --------------------------------------------------------------

/// A source that is open at a descriptor of its own.
class OpenSource final : public Decorator {
 public:
  OpenSource() : Decorator(std::make_shared<MemorySource>("bytes")) {}
  void check_unchanged() const override {
    if (on_check) on_check();
  }
  DescriptorPtr descriptor() const override { return std::make_shared<const Descriptor>(-1); }

  std::function<void()> on_check;
};

class BackedFiles : public FileOperations {
 protected:
  BackedFiles() : FileOperations(with_passthrough()) {
    EXPECT_FALSE(served.passthrough.on) << "the kernel has not offered it";
    served.passthrough.files = std::make_unique<BackingFiles>(
        BackingFiles::Kernel{.add = [this](int) -> std::int32_t { return ++backed; },
                             .remove = [this](std::int32_t) { --backed; }});
    served.passthrough.on = true;
    for (const auto& file : {a, b}) {
      file->on_equal_source = [this] {
        at_asking.push_back(served.storage.threads_taken());
        return equal;
      };
    }
    show();
  }

  static MountOptions with_passthrough() {
    MountOptions options;
    options.passthrough = true;
    return options;
  }
  std::uint32_t flags_of_opening(std::uint64_t inode) {
    return as<fuse_open_out>(call(FUSE_OPEN, inode, open_body(0)).body).open_flags;
  }

  std::int32_t backed = 0;
  std::shared_ptr<OpenSource> equal = std::make_shared<OpenSource>();
  std::vector<unsigned> at_asking;  ///< threads of the storage queue that were busy
};

TEST_F(BackedFiles, AreThoseThatEqualASource) {
  EXPECT_EQ(flags_of_opening(node("a")) & FOPEN_KEEP_CACHE, 0U) << "the source has its own";
  EXPECT_EQ(backed, 1);
  EXPECT_THAT(at_asking, ElementsAre(1U)) << "it may wait";
  equal = nullptr;
  EXPECT_NE(flags_of_opening(node("b")) & FOPEN_KEEP_CACHE, 0U);
  EXPECT_EQ(backed, 1);
}

TEST_F(BackedFiles, AreNoneWithoutPassthrough) {
  served.passthrough.on = false;
  const std::uint64_t handle = open(node("a"));
  EXPECT_THAT(at_asking, testing::IsEmpty());
  int checks = 0;
  equal->on_check = [&checks] { ++checks; };
  EXPECT_EQ(close(node("a"), handle), 0);
  EXPECT_EQ(checks, 0);
}

TEST_F(BackedFiles, AreNoTextsThatChange) {
  a->on_snapshot = [this] { return b; };
  open(node("a"));
  b->effort_of_reads = Effort::kNone;
  open(node("b"));
  EXPECT_THAT(at_asking, ElementsAre(0U)) << "of b, from memory";
}

TEST_F(BackedFiles, AreCheckedWhenTheyHaveBeenClosed) {
  const std::uint64_t handle = open(node("a"));
  bool is_answered = false;
  equal->on_check = [&] {
    is_answered = kernel.has_answer();
    throw Error(ErrorKind::kChanged, "x");
  };
  const auto failures = counters().values().request_failures;
  EXPECT_EQ(close(node("a"), handle), 0);
  EXPECT_TRUE(is_answered);
  EXPECT_EQ(backed, 0);
  EXPECT_EQ(counters().values().request_failures, failures + 1);
}

TEST_F(BackedFiles, AreCheckedAlsoWhileTheCheckOfAnotherHangs) {
  const std::shared_ptr<OpenSource> first = equal;
  const std::uint64_t of_first = open(node("a"));
  equal = std::make_shared<OpenSource>();
  const std::uint64_t of_second = open(node("b"));
  Step hanging;
  first->on_check = [&hanging] { hanging.begin(); };
  bool checked = false;
  equal->on_check = [&checked] { checked = true; };
  kernel.ask(FUSE_RELEASE, node("a"), release_body(of_first));
  std::thread closing([this] { session.process_one(); });
  hanging.wait_until_begun();
  EXPECT_EQ(kernel.answer().error, 0);
  EXPECT_EQ(close(node("b"), of_second), 0);
  EXPECT_TRUE(checked);
  hanging.let_go();
  closing.join();
}

}  // namespace
}  // namespace reshardfs::test
