// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace reshardfs {

/// How fast a file system answers, and whether reads of it are stuck, over all of its files, so
/// that not every file needs its own measurements.
///
/// It counts as slow after some reads were late, until hundreds in a row were not. A read that
/// takes many times as long as others is stuck, and may never end. Every member function may be
/// called from any number of threads at once.
class FileSystemSpeed {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;

  /// No read is stuck before that.
  static constexpr std::chrono::milliseconds kPatience{100};

  FileSystemSpeed();
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
  /// A read that takes longer is stuck. @param least its least value.
  Duration patience(Duration least = kPatience) const noexcept;

  /// A read that a thread makes by itself, as long as this exists. If it gets stuck, further reads
  /// learn of that. Takes some nanoseconds.
  class DirectRead {
   public:
    explicit DirectRead(FileSystemSpeed& file_system) noexcept;
    DirectRead(const DirectRead&) = delete;
    DirectRead& operator=(const DirectRead&) = delete;
    ~DirectRead();

   private:
    std::atomic<Duration::rep>* place_ = nullptr;
  };

  /// For those who look after reads of other threads. @param change of the number of stuck ones.
  void add_stuck(int change) noexcept;
  /// Whether a read is stuck, as far as that was noticed.
  bool is_stuck() const noexcept;
  /// Looks for direct reads that are stuck.
  void look(Clock::time_point now) noexcept;
  /// look() in all file systems. @return whether a read of any is stuck.
  static bool is_any_stuck(Clock::time_point now) noexcept;

 private:
  /// Of as many direct reads at once it is known when they began.
  static constexpr std::size_t kPlaces = 64;
  /// Each on a cache line of its own: threads that read must not share one.
  struct alignas(64) Place {
    std::atomic<Duration::rep> began = 0;  ///< 0: it is free
  };

  /// What was under way in the process that this one was forked from never ends here.
  void belong_to_process() noexcept;

  std::atomic<bool> is_slow_ = false;
  std::atomic<int> lateness_ = 0;
  std::atomic<Duration::rep> usual_ = 0;
  std::atomic<std::uint64_t> process_;  ///< its generation
  std::atomic<int> stuck_ = 0;          ///< of add_stuck()
  std::atomic<int> stuck_direct_ = 0;   ///< when look() was called last
  std::atomic<Duration::rep> looked_ = 0;
  std::array<Place, kPlaces> places_{};
};

}  // namespace reshardfs
