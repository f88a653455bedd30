// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace reshardfs {

/// How fast a file system answers, measured over all of its files, so that not every file needs its
/// own measurements.
///
/// It counts as slow after some reads were late, until hundreds in a row were not. Every member
/// function may be called from any number of threads at once.
class FileSystemSpeed {
 public:
  using Duration = std::chrono::steady_clock::duration;

  FileSystemSpeed() = default;
  FileSystemSpeed(const FileSystemSpeed&) = delete;
  FileSystemSpeed& operator=(const FileSystemSpeed&) = delete;
  ~FileSystemSpeed() = default;

  /// The instance for a device; all callers share it while any of them holds it.
  static std::shared_ptr<FileSystemSpeed> of(dev_t device);

  /// Call this after each read, also if the kernel had the bytes in its cache: such reads are fast
  /// and need no other way of reading.
  void note(std::uint64_t bytes, Duration took) noexcept;

  bool is_slow() const noexcept { return is_slow_.load(std::memory_order_relaxed); }
  /// The recent duration of a read; very long reads count as a quarter of a second.
  Duration usual() const noexcept { return Duration(usual_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<bool> is_slow_ = false;
  std::atomic<int> lateness_ = 0;
  std::atomic<Duration::rep> usual_ = 0;
};

}  // namespace reshardfs
