// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace reshardfs {

/// What a handle of an opening is called: by the request that has opened it, so that a request that
/// is answered twice, by two processes, opens once. The kernel numbers requests in a mount's life.
using OpeningHandle = std::uint64_t;

/// @param unique of the request. @param holds whether the opening holds something of its own.
OpeningHandle opening_handle(std::uint64_t unique, bool holds) noexcept;
bool holds_something(OpeningHandle handle) noexcept;

/// The openings of a mount, and of which of its trees they are, in memory that another process can
/// have, too: so whoever goes on with the mount knows which trees are in use.
///
/// One process at a time has it; within it every member function may be called from any number of
/// threads at once.
class OpeningTable {
 public:
  /// All zeros: no opening.
  struct Entry {
    OpeningHandle handle = 0;
    std::uint64_t tree_plus_1 = 0;
  };

  /// @param entries what another process has noted, or zeros. Openings beyond them are known to
  /// this
  ///        process alone.
  explicit OpeningTable(std::span<Entry> entries);
  OpeningTable(const OpeningTable&) = delete;
  OpeningTable& operator=(const OpeningTable&) = delete;
  ~OpeningTable() = default;

  /// @return whether it was not there.
  bool add(OpeningHandle handle, std::uint64_t tree) noexcept;
  /// @return of which tree it was; nothing if there was none.
  std::optional<std::uint64_t> remove(OpeningHandle handle) noexcept;
  std::optional<std::uint64_t> tree_of(OpeningHandle handle) const noexcept;
  /// How many openings a tree has.
  std::uint64_t of(std::uint64_t tree) const noexcept;
  /// Learns anew what the memory holds: another process has worked with it.
  void reread();

 private:
  struct Place {
    std::optional<std::size_t> entry;
    std::uint64_t tree = 0;
  };

  std::optional<std::size_t> take_entry() noexcept;

  const std::span<Entry> entries_;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::unordered_map<OpeningHandle, Place> by_handle_;
  std::vector<std::size_t> free_;  ///< used before, the last one is used next
};

}  // namespace reshardfs
