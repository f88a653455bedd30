// SPDX-License-Identifier: Apache-2.0
/// Worker threads that take their requests from a fake kernel.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "base/process/signals.h"
#include "fuse/operations.h"
#include "fuse/request.h"
#include "fuse/worker_threads.h"
#include "unit/fuse/fake_kernel.h"
#include "unit/fuse/storage_queue_fixture.h"
#include "vfs/tree_source.h"

namespace reshardfs::test {

/// Requests for the attributes of these nodes are not answered before the test lets them go.
inline constexpr fuse_ino_t kHeld = 100;
/// The same, in the storage queue.
inline constexpr fuse_ino_t kStored = 200;

class WorkerThreadsTest : public testing::Test {
 protected:
  WorkerThreadsTest() {
    kicks = 0;
    signals_.set(kKickSignal, signal_action([](int) { ++kicks; }, 0));
    fuse_custom_io io{};
    io.read = read;
    io.writev = write;
    EXPECT_EQ(fuse_session_custom_io(session_.get(), &io, kernel.device()), 0);
    current_ = this;
  }
  ~WorkerThreadsTest() override {
    EXPECT_TRUE(workers.stop(1h));
    served.storage.stop();
    current_ = nullptr;
  }

  /// The first request of a mount, and its answer.
  void init() {
    kernel.ask(FUSE_INIT, 0, FakeKernel::init());
    EXPECT_EQ(kernel.answer().error, 0);
    EXPECT_EQ(events.wait(), Event::kLive);
  }
  std::uint64_t ask(fuse_ino_t node) {
    return kernel.ask(FUSE_GETATTR, node, bytes_of(fuse_getattr_in{}));
  }
  /// The request has begun when it returns.
  Step& hold(fuse_ino_t node) {
    Step& step = steps_[node % kHeld];
    ask(node);
    step.wait_until_begun();
    return step;
  }
  void expect_answer(fuse_ino_t node) {
    const std::uint64_t unique = ask(node);
    EXPECT_EQ(kernel.answer().unique, unique);
  }
  /// Work of the storage queue that this thread runs.
  void submit_here() {
    served.storage.submit(nullptr, WaitClass::kRead, 0, [] { return Reply::error(0); });
  }
  /// The next reads of the device fail with these.
  void fail_reads(std::deque<int> errors) {
    const std::lock_guard lock(mutex_);
    errors_ = std::move(errors);
  }
  /// Those that have begun since the test has. Of the test before, one may not be gone yet.
  std::ptrdiff_t threads() const {
    std::ptrdiff_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kThreads)) {
      count += before_.contains(entry.path()) ? 0 : 1;
    }
    return count;
  }

  FakeKernel kernel;
  Tree tree = TreeBuilder().build();
  FixedTree source{tree};
  MountOptions options;
  ServedTree served{source, options};
  WakePipe events;
  std::atomic<std::uint64_t> number_seen = 0;
  static inline std::atomic<int> kicks;  ///< that threads have got

 private:
  static fuse_lowlevel_ops operations() {
    fuse_lowlevel_ops all{};
    all.init = ops::init;
    all.getattr = getattr;
    return all;
  }
  static void getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
    current_->number_seen = request_number();
    if (node < kHeld) {
      fuse_reply_err(request, 0);
      return;
    }
    Step& step = current_->steps_[node % kHeld];
    const auto work = [request, &step] {
      step.begin();
      fuse_reply_err(request, 0);
      return Reply::error(0);
    };
    if (node < kStored) {
      work();
    } else {
      current_->served.storage.submit(nullptr, WaitClass::kRead, 0, work);
    }
  }
  static ssize_t read(int device, void* buffer, std::size_t size, void*) {
    {
      const std::lock_guard lock(current_->mutex_);
      if (!current_->errors_.empty()) {
        errno = current_->errors_.front();
        current_->errors_.pop_front();
        return -1;
      }
    }
    return ::read(device, buffer, size);
  }
  static ssize_t write(int device, iovec* pieces, int count, void*) {
    return ::writev(device, pieces, count);
  }

  static constexpr auto kThreads = "/proc/self/task";
  static std::set<std::filesystem::path> all_threads() {
    const std::filesystem::directory_iterator threads(kThreads);
    return {begin(threads), end(threads)};
  }

  static inline WorkerThreadsTest* current_ = nullptr;
  const std::set<std::filesystem::path> before_ = all_threads();
  SignalHandlers signals_;
  const fuse_lowlevel_ops operations_ = operations();
  BareSession session_{operations_, &served};
  std::array<Step, 16> steps_;
  std::mutex mutex_;
  std::deque<int> errors_;  ///< guarded by mutex_

 protected:
  WorkerThreads workers{session_.get(), served, events};
};

}  // namespace reshardfs::test
