// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace reshardfs {

/// How soon a file system answers, by the reads of all files of it together: so not each file has
/// to be found out about anew.
///
/// It is slow once some reads were late, and no longer when hundreds in a row were not. Every
/// member function may be called from any number of threads at once.
class FileSystemSpeed {
 public:
  using Duration = std::chrono::steady_clock::duration;

  FileSystemSpeed() = default;
  FileSystemSpeed(const FileSystemSpeed&) = delete;
  FileSystemSpeed& operator=(const FileSystemSpeed&) = delete;
  ~FileSystemSpeed() = default;

  /// That of a device: the same for all that ask as long as one of them keeps it.
  static std::shared_ptr<FileSystemSpeed> of(dev_t device);

  /// To be told of each read, whatever it came from: what the kernel had in its cache is soon
  /// there, and need not be read otherwise.
  void note(std::uint64_t bytes, Duration took) noexcept;

  bool is_slow() const noexcept { return is_slow_.load(std::memory_order_relaxed); }
  /// How long a read takes, lately; those that took very long count as a quarter of a second.
  Duration usual() const noexcept { return Duration(usual_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<bool> is_slow_ = false;
  std::atomic<int> lateness_ = 0;
  std::atomic<Duration::rep> usual_ = 0;
};

}  // namespace reshardfs
