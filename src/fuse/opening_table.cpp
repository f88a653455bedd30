// SPDX-License-Identifier: Apache-2.0
#include "fuse/opening_table.h"

#include <algorithm>
#include <atomic>
#include <new>

namespace reshardfs {
namespace {

/// The kernel marks requests with this bit that it sends again (FUSE_UNIQUE_RESEND).
constexpr std::uint64_t kSentAgain = std::uint64_t{1} << 63;
constexpr std::uint64_t kHolds = std::uint64_t{1} << 62;

}  // namespace

OpeningHandle opening_handle(std::uint64_t unique, bool holds) noexcept {
  return (unique & ~kSentAgain) | (holds ? kHolds : 0);
}

bool holds_something(OpeningHandle handle) noexcept {
  return (handle & kHolds) != 0;
}

// The first entry holds no opening, but in its handle how many entries were ever used: what is
// beyond them is not looked at, so that it never becomes memory.
//
// A process may be killed between any two stores. So they reach the memory in an order in which no
// prefix of them is an opening that there never was: the tree, which makes an entry one, comes
// last.

namespace {

using Shared = std::atomic_ref<std::uint64_t>;

void store(std::uint64_t& place, std::uint64_t value) noexcept {
  Shared(place).store(value, std::memory_order_release);
}

std::uint64_t load(std::uint64_t& place) noexcept {
  return Shared(place).load(std::memory_order_acquire);
}

}  // namespace

OpeningTable::OpeningTable(std::span<Entry> entries) : entries_(entries) {
  reread();
}

void OpeningTable::reread() {
  const std::lock_guard lock(mutex_);
  by_handle_.clear();
  free_.clear();
  if (entries_.empty()) return;
  const std::size_t used =
      std::min<std::uint64_t>(load(entries_.front().handle), entries_.size() - 1);
  free_.reserve(used);
  for (std::size_t i = used; i > 0; --i) {
    Entry& entry = entries_[i];
    const std::uint64_t tree_plus_1 = load(entry.tree_plus_1);
    if (tree_plus_1 == 0) {
      free_.push_back(i);
    } else {
      by_handle_[load(entry.handle)] = {i, tree_plus_1 - 1};
    }
  }
}

/// @throws std::bad_alloc
std::optional<std::size_t> OpeningTable::take_entry() {
  if (!free_.empty()) {
    const std::size_t entry = free_.back();
    free_.pop_back();
    return entry;
  }
  const std::uint64_t used = entries_.empty() ? 0 : load(entries_.front().handle);
  if (used + 1 >= entries_.size()) return std::nullopt;
  // Reserves room for the moment when it is given back.
  constexpr std::size_t kLeast = 64;
  if (free_.capacity() <= used) free_.reserve(std::max(kLeast, 2 * free_.capacity()));
  store(entries_.front().handle, used + 1);
  return used + 1;
}

bool OpeningTable::add(OpeningHandle handle, std::uint64_t tree) {
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = by_handle_.try_emplace(handle);
  if (!is_new) return false;
  it->second.tree = tree;
  try {
    it->second.entry = take_entry();
  } catch (const std::bad_alloc&) {
    // No memory to tell another process.
  }
  if (!it->second.entry) return true;
  Entry& entry = entries_[*it->second.entry];
  store(entry.handle, handle);
  store(entry.tree_plus_1, tree + 1);
  return true;
}

std::optional<std::uint64_t> OpeningTable::remove(OpeningHandle handle) noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = by_handle_.find(handle);
  if (it == by_handle_.end()) return std::nullopt;
  const Place place = it->second;
  by_handle_.erase(it);
  if (!place.entry) return place.tree;
  store(entries_[*place.entry].tree_plus_1, 0);
  free_.push_back(*place.entry);  // has room for all that were ever used
  return place.tree;
}

std::optional<std::uint64_t> OpeningTable::tree_of(OpeningHandle handle) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = by_handle_.find(handle);
  return it == by_handle_.end() ? std::nullopt : std::optional(it->second.tree);
}

std::uint64_t OpeningTable::of(std::uint64_t tree) const noexcept {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint64_t>(
      std::count_if(by_handle_.begin(), by_handle_.end(),
                    [tree](const auto& opening) { return opening.second.tree == tree; }));
}

std::uint64_t OpeningTable::needing(std::uint64_t tree) const noexcept {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint64_t>(
      std::count_if(by_handle_.begin(), by_handle_.end(), [tree](const auto& opening) {
        return opening.second.tree == tree && !holds_something(opening.first);
      }));
}

std::uint64_t OpeningTable::count() const noexcept {
  const std::lock_guard lock(mutex_);
  return by_handle_.size();
}

}  // namespace reshardfs
