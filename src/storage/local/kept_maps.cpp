// SPDX-License-Identifier: Apache-2.0
#include "storage/local/kept_maps.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include "base/process/process_state.h"
#include "base/process/resource_limits.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMostMapped = std::uint64_t{16} << 30;
constexpr std::uint64_t kShareOfMemory = 8;
/// Of so many windows that are not mapped because it is dear, one is, so that the windows follow
/// the readers.
constexpr std::uint64_t kOneOf = 8;

KeptMaps::Limits limits_of_process() {
  // A map that is kept could take the addresses that an allocation needs.
  if (is_address_space_limited()) return {};
  return {.bytes = std::min(memory_size() / kShareOfMemory, kMostMapped)};
}

MapWindowPtr map_window(int fd, std::uint64_t offset, std::uint64_t size,
                        const std::shared_ptr<std::atomic<std::int64_t>>& unmap_cost) {
  const auto bytes =
      static_cast<std::size_t>(std::min(size - offset, MapWindow::kStep + MapWindow::kOverlap));
  void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (map == MAP_FAILED) return nullptr;
  try {
    return std::make_shared<const MapWindow>(static_cast<const std::byte*>(map), bytes, unmap_cost);
  } catch (const std::bad_alloc&) {
    ::munmap(map, bytes);
    return nullptr;
  }
}

ProcessState<KeptMaps> the_maps("kept maps", [](const KeptMaps* /*before*/) {
  return new KeptMaps(limits_of_process());
});

}  // namespace

MapWindow::MapWindow(const std::byte* begin, std::size_t bytes,
                     std::shared_ptr<std::atomic<std::int64_t>> unmap_cost) noexcept
    : begin_(begin), size_(bytes), unmap_cost_(std::move(unmap_cost)) {}

MapWindow::~MapWindow() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now();
  ::munmap(const_cast<std::byte*>(begin_), size_);
  const std::int64_t took =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began).count();
  constexpr std::size_t kMebibyte = 1 << 20;
  // A small window says little about the others.
  if (size_ < kMebibyte) return;
  const auto cost = took / static_cast<std::int64_t>(size_ / kMebibyte);
  constexpr std::int64_t kInertia = 4;
  const std::int64_t before = *unmap_cost_;
  // Two threads at once may lose one of their figures, which is one of many.
  *unmap_cost_ = before == 0 ? cost : before + (cost - before) / kInertia;
}

KeptMaps::KeptMaps(Limits limits)
    : limits_(limits), unmap_cost_(std::make_shared<std::atomic<std::int64_t>>(0)) {}

KeptMaps& KeptMaps::process() {
  return the_maps.get();
}

MapWindowPtr KeptMaps::get(const void* file, std::uint64_t number, int fd,
                           std::uint64_t size) noexcept {
  const Key key(file, number);
  try {
    if (MapWindowPtr window = find(key)) return window;
    const std::uint64_t offset = number * MapWindow::kStep;
    if (is_full_and_dear(std::min(size - offset, MapWindow::kStep))) return nullptr;
    MapWindowPtr window = map_window(fd, offset, size, unmap_cost_);
    if (window) keep(key, window);
    return window;
  } catch (const std::exception&) {
    return nullptr;  // without memory for it, the bytes are read in another way
  }
}

MapWindowPtr KeptMaps::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key);
  if (found == kept_.end()) return nullptr;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.window;
}

bool KeptMaps::is_full_and_dear(std::uint64_t bytes) {
  if (*unmap_cost_ < limits_.dear_unmap) return false;
  const std::lock_guard lock(mutex_);
  return bytes_ + bytes > limits_.bytes && ++refused_ % kOneOf != 0;
}

MapWindowPtr KeptMaps::take_out(std::map<Key, Kept>::iterator kept) {
  MapWindowPtr window = std::move(kept->second.window);
  bytes_ -= window->bytes().size();
  uses_.erase(kept->second.use);
  kept_.erase(kept);
  return window;
}

void KeptMaps::keep(const Key& key, const MapWindowPtr& window) {
  std::vector<MapWindowPtr> gone;  // unmapped after the lock is released
  const std::uint64_t added = window->bytes().size();
  if (added > limits_.bytes) return;
  const std::lock_guard lock(mutex_);
  // Another thread may have mapped the same window meanwhile.
  if (kept_.contains(key)) return;
  while (!uses_.empty() && (bytes_ + added > limits_.bytes || kept_.size() >= limits_.windows)) {
    gone.push_back(take_out(kept_.find(uses_.back())));
  }
  // What needs memory comes first: a list must not have a window that the table has not.
  std::list<Key> use{key};
  kept_.emplace(key, Kept{window, use.begin()});
  uses_.splice(uses_.begin(), use);
  bytes_ += added;
}

void KeptMaps::forget(const void* file) noexcept {
  for (;;) {
    MapWindowPtr gone;  // unmapped after the lock is released
    const std::lock_guard lock(mutex_);
    const auto first = kept_.lower_bound({file, 0});
    if (first == kept_.end() || first->first.first != file) return;
    gone = take_out(first);
  }
}

std::uint64_t KeptMaps::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace reshardfs
