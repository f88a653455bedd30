// SPDX-License-Identifier: Apache-2.0
#include "core/workers.h"

#include <system_error>
#include <thread>
#include <utility>

#include "base/process/process_state.h"
#include "base/process/signals.h"

namespace reshardfs::python {
namespace {

/// Work behind that waits for a thread to be free; all may wait for a storage that does not answer.
constexpr std::size_t kMostThreads = 256;
/// More that have nothing to do end.
constexpr std::size_t kMostIdle = 8;

ProcessState<Workers> the_workers("Python's workers", make_new<Workers>);

}  // namespace

Workers& Workers::process() {
  return the_workers.get();
}

void Workers::submit(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(work));
  if (waiting_.size() > idle_ && threads_ < kMostThreads) {
    try {
      start_one();
    } catch (const std::system_error&) {
      if (threads_ > 0) return;  // one of those comes to it
      waiting_.pop_back();
      throw;
    }
  }
  wake_.notify_one();
}

void Workers::start_one() {
  const NoSignals mask;
  std::thread([this] { run(); }).detach();
  ++threads_;
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (waiting_.empty()) {
      if (idle_ >= kMostIdle) break;
      ++idle_;
      wake_.wait(lock, [this] { return !waiting_.empty(); });
      --idle_;
    }
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
  --threads_;
}

}  // namespace reshardfs::python
