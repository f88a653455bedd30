// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>

namespace reshardfs {

/// A lock on an open file that excludes other processes, and others in this one that have opened
/// the file themselves. It ends with its holder, however that ends.
class CacheLock {
 public:
  using Patience = std::chrono::milliseconds;

  /// @param patience how long to wait: its holder may be a process that is stopped.
  /// @return nothing if it could not be had. Where the file system has no locks there is none to
  ///         wait for: then the count of bytes may become wrong, until it is made anew.
  static std::optional<CacheLock> take(int file, Patience patience,
                                       const std::stop_token& stop) noexcept;

  CacheLock(CacheLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;
  CacheLock& operator=(CacheLock&&) = delete;
  ~CacheLock();

 private:
  explicit CacheLock(int file) noexcept : file_(file) {}

  int file_;
};

/// Whether a lock on the file is held elsewhere. If it is not, this open file has it now.
enum class LockState : std::uint8_t { kTaken, kHeldElsewhere, kUnsupported };
LockState try_lock(int file) noexcept;

}  // namespace reshardfs
