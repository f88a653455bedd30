// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace reshardfs {

/// What openings hold, each its own, by numbers that the kernel keeps for them. Numbers that were
/// never given, or are no longer in use, stand for nothing: so they can do no harm. Every member
/// function may be called from any number of threads at once.
template <typename Held>
class OpenHandles {
 public:
  /// Stands for an opening that holds nothing.
  static constexpr std::uint64_t kNone = 0;

  /// @return its number, or kNone if there is nothing to keep. @throws std::bad_alloc
  std::uint64_t add(std::shared_ptr<const Held> held) {
    if (held == nullptr) return kNone;
    const std::lock_guard lock(mutex_);
    by_number_.emplace(last_ + 1, std::move(held));
    return ++last_;
  }

  /// nullptr if there is none of that number.
  std::shared_ptr<const Held> find(std::uint64_t number) const noexcept {
    if (number == kNone) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(number);
    return it == by_number_.end() ? nullptr : it->second;
  }

  /// Does nothing if there is none of that number.
  void replace(std::uint64_t number, std::shared_ptr<const Held> held) noexcept {
    // What was held is freed without the lock: by `held`.
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(number);
    if (it != by_number_.end()) it->second.swap(held);
  }

  void remove(std::uint64_t number) noexcept {
    if (number == kNone) return;
    std::shared_ptr<const Held> held;  // freed without the lock
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(number);
    if (it == by_number_.end()) return;
    held = std::move(it->second);
    by_number_.erase(it);
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t last_ = kNone;                                                ///< guarded
  std::unordered_map<std::uint64_t, std::shared_ptr<const Held>> by_number_;  ///< guarded
};

}  // namespace reshardfs
