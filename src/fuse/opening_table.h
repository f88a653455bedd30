// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace reshardfs {

/// The handle of an opening: the number of the request that opened it, so that a request that two
/// processes answer opens only once. The kernel never reuses a number while a mount exists.
using OpeningHandle = std::uint64_t;

/// @param unique of the request. @param holds whether the opening holds something of its own.
OpeningHandle opening_handle(std::uint64_t unique, bool holds) noexcept;
bool holds_something(OpeningHandle handle) noexcept;

/// The openings of a mount and the tree of each, in memory that can be shared, so that a process
/// that takes over the mount knows which trees are in use.
///
/// One process uses it at a time; in that process, every member function may be called from any
/// number of threads at once.
class OpeningTable {
 public:
  /// All zeros: no opening.
  struct Entry {
    OpeningHandle handle = 0;
    std::uint64_t tree_plus_1 = 0;
  };

  /// @param entries what another process has noted, or zeros. Openings beyond them are known to
  ///        this process alone.
  explicit OpeningTable(std::span<Entry> entries);
  OpeningTable(const OpeningTable&) = delete;
  OpeningTable& operator=(const OpeningTable&) = delete;
  ~OpeningTable() = default;

  /// @return whether it is new. @throws std::bad_alloc
  bool add(OpeningHandle handle, std::uint64_t tree);
  /// @return its tree; nullopt if there was no such opening.
  std::optional<std::uint64_t> remove(OpeningHandle handle) noexcept;
  std::optional<std::uint64_t> tree_of(OpeningHandle handle) const noexcept;
  std::uint64_t count() const noexcept;
  /// The number of openings of a tree.
  std::uint64_t of(std::uint64_t tree) const noexcept;
  /// The number of those that hold nothing of their own, and so can be read only with the tree.
  std::uint64_t needing(std::uint64_t tree) const noexcept;
  /// Reads the memory again after another process has used it.
  void reread();

 private:
  struct Place {
    std::optional<std::size_t> entry;
    std::uint64_t tree = 0;
  };

  std::optional<std::size_t> take_entry();

  const std::span<Entry> entries_;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::unordered_map<OpeningHandle, Place> by_handle_;
  std::vector<std::size_t> free_;  ///< used before, the last one is used next
};

}  // namespace reshardfs
