// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace reshardfs {

class KillableRequest;

/// Looks now and then whether the programs behind waiting requests have been killed. The kernel
/// tells of the first signal that a waiting program gets; when that was one that the program
/// handles, a SIGKILL after it makes no difference to the kernel until the request is answered.
class KillWatch {
 public:
  explicit KillWatch(std::chrono::milliseconds interval = std::chrono::milliseconds(100)) noexcept
      : interval_(interval) {}
  KillWatch(const KillWatch&) = delete;
  KillWatch& operator=(const KillWatch&) = delete;
  ~KillWatch() { stop(); }

  /// Watches a request until it is answered. The first one starts a thread, which inherits the
  /// caller's signal mask. Without memory or threads the request is not watched.
  void add(std::weak_ptr<KillableRequest> request) noexcept;

  /// To be called before the requests' session ends. Does not wait for storage.
  void stop() noexcept;

 private:
  void work() noexcept;

  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  std::vector<std::weak_ptr<KillableRequest>> requests_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace reshardfs
