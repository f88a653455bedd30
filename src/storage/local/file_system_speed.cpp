// SPDX-License-Identifier: Apache-2.0
#include "storage/local/file_system_speed.h"

#include <algorithm>
#include <ctime>
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

/// A read that takes so many times as long as usual is stuck.
constexpr int kManyTimes = 8;
/// How often a reading thread checks whether other reads are stuck.
constexpr std::chrono::milliseconds kDirectLookInterval{20};

struct Speeds {
  std::mutex mutex;
  std::unordered_map<dev_t, std::weak_ptr<FileSystemSpeed>> of_device;  ///< guarded by mutex
};

ProcessState<Speeds> the_speeds("speeds of file systems", make_new<Speeds>);

/// To within a few milliseconds, in a quarter of the time that the precise one takes.
FileSystemSpeed::Duration coarse_now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

FileSystemSpeed::FileSystemSpeed() : process_(process_generation()) {}

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

FileSystemSpeed::Duration FileSystemSpeed::patience(Duration least) const noexcept {
  return std::max<Duration>(least, kManyTimes * usual());
}

// --- reads that are stuck ----------------------------------------------------------------------

FileSystemSpeed::DirectRead::DirectRead(FileSystemSpeed& file_system) noexcept {
  const Duration now = coarse_now();
  if (now.count() - file_system.looked_.load(std::memory_order_relaxed) >=
      Duration(kDirectLookInterval).count()) {
    file_system.look(Clock::time_point(now));
  }
  // Threads have stacks of their own, and so mostly find a place that no other thread has used.
  const auto first = reinterpret_cast<std::uintptr_t>(this) >> 12U;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    auto& began = file_system.places_[(first + i) % kPlaces].began;
    Duration::rep free = 0;
    if (!began.compare_exchange_strong(free, now.count(), std::memory_order_relaxed)) continue;
    place_ = &began;
    return;
  }
}

FileSystemSpeed::DirectRead::~DirectRead() {
  if (place_ != nullptr) place_->store(0, std::memory_order_relaxed);
}

void FileSystemSpeed::add_stuck(int change) noexcept {
  belong_to_process();
  stuck_ += change;
}

bool FileSystemSpeed::is_stuck() const noexcept {
  if (process_.load(std::memory_order_relaxed) != process_generation()) return false;
  return stuck_.load(std::memory_order_relaxed) > 0 ||
         stuck_direct_.load(std::memory_order_relaxed) > 0;
}

void FileSystemSpeed::look(Clock::time_point now) noexcept {
  belong_to_process();
  looked_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  const Duration::rep latest = (now.time_since_epoch() - patience()).count();
  const auto stuck = std::count_if(places_.begin(), places_.end(), [latest](const Place& place) {
    const Duration::rep began = place.began.load(std::memory_order_relaxed);
    return began != 0 && began <= latest;
  });
  stuck_direct_.store(static_cast<int>(stuck), std::memory_order_relaxed);
}

void FileSystemSpeed::belong_to_process() noexcept {
  const std::uint64_t generation = process_generation();
  if (process_.exchange(generation, std::memory_order_relaxed) == generation) return;
  for (Place& place : places_) place.began.store(0, std::memory_order_relaxed);
  stuck_ = stuck_direct_ = 0;
}

bool FileSystemSpeed::is_any_stuck(Clock::time_point now) noexcept {
  Speeds* const speeds = the_speeds.made();
  if (speeds == nullptr) return false;
  bool any = false;
  const std::scoped_lock lock(speeds->mutex);
  for (const auto& [device, known] : speeds->of_device) {
    const std::shared_ptr<FileSystemSpeed> speed = known.lock();
    if (speed == nullptr) continue;
    speed->look(now);
    any = any || speed->is_stuck();
  }
  return any;
}

}  // namespace reshardfs
