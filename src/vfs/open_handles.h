// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reshardfs {

/// What openings hold, each its own, by numbers that the kernel keeps for them. Numbers that are
/// not in use stand for nothing: so they can do no harm. Every member function may be called from
/// any number of threads at once.
template <typename Held>
class OpenHandles {
 public:
  /// In the place of what the number has stood for. @throws std::bad_alloc
  void add(std::uint64_t number, std::shared_ptr<const Held> held) {
    Entry entry{std::move(held), false};  // what was held is freed without the lock: by this
    const std::lock_guard lock(mutex_);
    std::swap(by_number_[number], entry);
  }

  /// The kernel knows the number from now on.
  void confirm(std::uint64_t number) noexcept {
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(number);
    if (it != by_number_.end()) it->second.confirmed = true;
  }

  /// The handles that the kernel knows, for a process that takes over the mount.
  std::vector<std::pair<std::uint64_t, std::shared_ptr<const Held>>> confirmed() const {
    std::vector<std::pair<std::uint64_t, std::shared_ptr<const Held>>> all;
    const std::lock_guard lock(mutex_);
    for (const auto& [number, entry] : by_number_) {
      if (entry.confirmed) all.emplace_back(number, entry.held);
    }
    return all;
  }

  /// Holds again what another process has held under this number. @throws std::bad_alloc
  void restore(std::uint64_t number, std::shared_ptr<const Held> held) {
    const std::lock_guard lock(mutex_);
    by_number_.insert_or_assign(number, Entry{std::move(held), true});
  }

  /// nullptr if no handle has that number.
  std::shared_ptr<const Held> find(std::uint64_t number) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(number);
    return it == by_number_.end() ? nullptr : it->second.held;
  }

  /// Does nothing if no handle has that number.
  void replace(std::uint64_t number, std::shared_ptr<const Held> held) noexcept {
    // What was held is freed without the lock: by `held`.
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(number);
    if (it != by_number_.end()) it->second.held.swap(held);
  }

  void remove(std::uint64_t number) noexcept { static_cast<void>(take(number)); }
  /// @return what was removed; nullptr if there was none.
  std::shared_ptr<const Held> take(std::uint64_t number) noexcept {
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(number);
    if (it == by_number_.end()) return nullptr;
    std::shared_ptr<const Held> held = std::move(it->second.held);
    by_number_.erase(it);
    return held;
  }

  std::size_t count() const noexcept {
    const std::lock_guard lock(mutex_);
    return by_number_.size();
  }

 private:
  struct Entry {
    std::shared_ptr<const Held> held;
    bool confirmed = false;
  };

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Entry> by_number_;  ///< guarded
};

}  // namespace reshardfs
