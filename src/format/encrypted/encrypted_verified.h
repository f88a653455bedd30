// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace reshardfs {

/// Which blocks of one file have been verified. Any number of threads may use it at once.
class VerifiedBlocks {
 public:
  explicit VerifiedBlocks(std::size_t count);

  /// Returns when the block has been verified: at once if it was before; otherwise `verify` is
  /// called, without a lock, or another thread's call of it is waited for.
  /// What `verify` throws goes to all that wait for it; a later call tries again.
  void require(std::uint64_t block, const std::function<void()>& verify);

 private:
  struct Verification;

  void finish(std::uint64_t block, Verification& verification);

  std::vector<std::atomic<bool>> verified_;
  std::mutex mutex_;
  std::condition_variable finished_;
  std::map<std::uint64_t, std::shared_ptr<Verification>> running_;
};

}  // namespace reshardfs
