// SPDX-License-Identifier: Apache-2.0
/// Locks on open files and directories (flock). They exclude other processes, and others in this
/// one that have opened the file themselves. A lock ends with the last descriptor of the opening,
/// which a child of a fork may have.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>

namespace reshardfs {

enum class LockMode : std::uint8_t {
  kShared,     ///< others may have it, too
  kExclusive,  ///< nobody else has it
};

enum class LockState : std::uint8_t {
  kTaken,
  kHeldElsewhere,
  kUnsupported,  ///< no locks there, as of directories on NFS
};

/// Locks it for as long as it is open, unless somebody else has locked it.
LockState try_lock(int file, LockMode mode = LockMode::kExclusive) noexcept;

/// An exclusive lock that ends with its scope.
class FileLock {
 public:
  using Patience = std::chrono::milliseconds;

  /// @param patience how long to wait: its holder may be a process that is stopped.
  /// @return nothing if it could not be had. Where the file system has no locks there is none to
  ///         wait for, and what is returned locks nothing.
  static std::optional<FileLock> take(int file, Patience patience,
                                      const std::stop_token& stop) noexcept;

  FileLock(FileLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int file) noexcept : file_(file) {}

  int file_;
};

}  // namespace reshardfs
