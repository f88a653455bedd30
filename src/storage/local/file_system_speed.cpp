// SPDX-License-Identifier: Apache-2.0
#include "storage/local/file_system_speed.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "base/process/process_state.h"

namespace reshardfs {
namespace {

/// A read that takes longer is late: what the kernel has in its cache, and what a server nearby has
/// in its memory, is there sooner.
constexpr std::chrono::milliseconds kLatency{1};
constexpr std::uint64_t kNanosecondsPerByte = 2;

/// One late read among some dozens is enough: the kernel fetches more than is read, so most reads
/// find their bytes in its cache.
constexpr int kLate = 64;
constexpr int kSlow = 4 * kLate;
constexpr int kMost = 2 * kSlow;

constexpr std::chrono::milliseconds kLongest{250};

struct Speeds {
  std::mutex mutex;
  std::unordered_map<dev_t, std::weak_ptr<FileSystemSpeed>> of_device;  ///< guarded by mutex
};

ProcessState<Speeds> the_speeds("speeds of file systems", make_new<Speeds>);

}  // namespace

std::shared_ptr<FileSystemSpeed> FileSystemSpeed::of(dev_t device) {
  Speeds& speeds = the_speeds.get();
  const std::scoped_lock lock(speeds.mutex);
  // The number belongs to another file system only after all files of this one were closed.
  std::weak_ptr<FileSystemSpeed>& known = speeds.of_device[device];
  std::shared_ptr<FileSystemSpeed> speed = known.lock();
  if (speed == nullptr) known = speed = std::make_shared<FileSystemSpeed>();
  return speed;
}

void FileSystemSpeed::note(std::uint64_t bytes, Duration took) noexcept {
  const Duration counted = std::min<Duration>(took, kLongest);
  const Duration::rep before = usual_.load(std::memory_order_relaxed);
  usual_.store(before + (counted.count() - before) / 8, std::memory_order_relaxed);
  const bool late = took > kLatency + std::chrono::nanoseconds(bytes * kNanosecondsPerByte);
  int lateness = lateness_.load(std::memory_order_relaxed);
  if (!late && lateness == 0) return;
  // What two threads tell at once may count as one: it is an estimate.
  lateness = std::clamp(lateness + (late ? kLate : -1), 0, kMost);
  lateness_.store(lateness, std::memory_order_relaxed);
  if (lateness >= kSlow) is_slow_.store(true, std::memory_order_relaxed);
  if (lateness == 0) is_slow_.store(false, std::memory_order_relaxed);
}

}  // namespace reshardfs
