// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/posix/descriptor.h"

namespace reshardfs {

/// What a task has come to: a text, or the error number that kept it from one.
struct TaskResult {
  int error = 0;
  std::string text;
};

/// Work that may wait for a mount that never answers: it is done in a child process, which is left
/// to itself when its time is over (and killed, as soon as the kernel can).
class BoundedTask {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts it. To be used while the process has one thread.
  /// @throws Error kIo if no process can be started.
  explicit BoundedTask(const std::function<TaskResult()>& work);
  BoundedTask(BoundedTask&& other) noexcept;
  BoundedTask(const BoundedTask&) = delete;
  BoundedTask& operator=(const BoundedTask&) = delete;
  ~BoundedTask();

  /// Its result; nothing if it is not there by then, or if the child was ended. To be called again
  /// only if it has not ended.
  std::optional<TaskResult> wait_until(Clock::time_point deadline);
  /// Whether the child is gone, or about to be.
  bool has_ended() const noexcept { return has_ended_; }

 private:
  pid_t child_ = -1;
  Descriptor pipe_;
  std::string bytes_;  ///< that have come so far
  bool has_ended_ = false;
};

}  // namespace reshardfs
