// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <thread>

namespace reshardfs {

/// A thread with one task that may wait forever for a disk, a server or the kernel. So waiting for
/// it always has a time limit. Not thread-safe.
class LoneThread {
 public:
  LoneThread() = default;
  LoneThread(const LoneThread&) = delete;
  LoneThread& operator=(const LoneThread&) = delete;
  /// Leaves a thread alone that has not ended: what its task uses must live on then.
  ~LoneThread();

  /// Runs the task, which must not throw, on a thread that gets no signals. Not while there is one.
  /// The child of a fork has none, so start it when it is first needed.
  /// @throws std::system_error, std::bad_alloc
  void start(std::function<void()> task);
  /// @return whether the task has ended, or there was none; then there is no thread any more.
  bool ends_within(std::chrono::milliseconds limit) noexcept;

 private:
  std::future<void> ended_;
  std::thread thread_;
};

}  // namespace reshardfs
