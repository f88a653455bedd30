// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace reshardfs {

void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work,
                  std::size_t threads) {
  if (threads == 0)
    threads = std::clamp<std::size_t>(2 * std::thread::hardware_concurrency(), 4, 16);
  threads = std::min(threads, count);

  std::atomic<std::size_t> next{0};
  std::mutex mutex;  // guards first_failure and failure
  std::size_t first_failure = std::numeric_limits<std::size_t>::max();
  std::exception_ptr failure;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < first_failure) {
          first_failure = i;
          failure = std::current_exception();
        }
      }
    }
  };

  if (threads <= 1) {
    run();
  } else {
    std::vector<std::jthread> pool;
    pool.reserve(threads);
    for (std::size_t i = 0; i < threads; ++i) pool.emplace_back(run);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace reshardfs
