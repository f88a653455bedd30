// SPDX-License-Identifier: Apache-2.0
#include "base/process/lone_thread.h"

#include <utility>

#include "base/process/signals.h"

namespace reshardfs {

LoneThread::~LoneThread() {
  if (thread_.joinable()) thread_.detach();
}

void LoneThread::start(std::function<void()> task) {
  const NoSignals none;
  std::promise<void> end;
  ended_ = end.get_future();
  thread_ = std::thread([task = std::move(task), end = std::move(end)]() mutable {
    task();
    end.set_value();
  });
}

bool LoneThread::ends_within(std::chrono::milliseconds limit) noexcept {
  if (!thread_.joinable()) return true;
  if (ended_.wait_for(limit) != std::future_status::ready) return false;
  thread_.join();
  return true;
}

}  // namespace reshardfs
