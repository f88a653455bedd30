// SPDX-License-Identifier: Apache-2.0
#include "base/process/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/process/fault_report.h"
#include "base/process/interrupted.h"
#include "base/process/resource_limits.h"
#include "base/text/text.h"

namespace reshardfs {

namespace {

/// The exception of the lowest index, so that messages do not depend on timing.
class FirstFailure {
 public:
  void note(std::size_t index) {
    const std::lock_guard lock(mutex_);
    if (index >= index_) return;
    index_ = index;
    failure_ = std::current_exception();
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;  // guards both below
  std::size_t index_ = std::numeric_limits<std::size_t>::max();
  std::exception_ptr failure_;
};

/// Reports once that fewer threads do the work; it is no error.
void report_lack(std::size_t threads, const std::exception& error) noexcept {
  try {
    report_fault(LogEvent::kThreadsLacking, "too few threads",
                 "the work is done on " + counted(threads, "thread") +
                     " alone, because no other can be started: " + why_no_thread(error));
  } catch (const std::exception&) {
    // Out of memory: not even a message can be made.
  }
}

void start_threads(std::vector<std::jthread>& pool, std::size_t count,
                   const std::function<void()>& run) {
  try {
    while (pool.size() < count) pool.emplace_back(run);
  } catch (const std::exception& error) {
    report_lack(pool.size() + 1, error);
  }
}

std::size_t default_threads() {
  return std::clamp<std::size_t>(std::size_t{2} * std::thread::hardware_concurrency(), 4, 16);
}

}  // namespace

void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work,
                  std::size_t threads) {
  threads = std::min(threads == 0 ? default_threads() : threads, count);
  std::atomic<std::size_t> next{0};
  FirstFailure failure;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (const Interrupted&) {
        failure.note(i);
        next = count;
      } catch (...) {
        failure.note(i);
      }
    }
  };
  if (count > 0) {
    std::vector<std::jthread> pool;
    pool.reserve(threads - 1);
    start_threads(pool, threads - 1, run);
    run();
  }
  failure.rethrow();
}

}  // namespace reshardfs
