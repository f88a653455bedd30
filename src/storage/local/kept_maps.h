// SPDX-License-Identifier: Apache-2.0
/// Keeps maps of source files for later reads: to map a page and to unmap it costs more than to
/// copy some bytes out of it, by far on virtual machines whose page tables the host maintains.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

namespace reshardfs {

/// A part of a file in memory. Its pages are those of the page cache. Reading a page that the file
/// no longer has, or that storage cannot deliver, raises SIGBUS: see gather_from_memory().
class MapWindow {
 public:
  /// Bytes from the start of a window to the start of the next one in a file.
  static constexpr std::uint64_t kStep = std::uint64_t{16} << 20;
  /// A window overlaps the next one by this, so that a range of at most this length lies within the
  /// window in which it begins.
  static constexpr std::uint64_t kOverlap = std::uint64_t{64} << 10;

  /// Takes over a map of `bytes` bytes.
  /// @param unmap_cost receives a moving average of what unmapping costs, in ns for each MiB.
  MapWindow(const std::byte* begin, std::size_t bytes,
            std::shared_ptr<std::atomic<std::int64_t>> unmap_cost) noexcept;
  MapWindow(const MapWindow&) = delete;
  MapWindow& operator=(const MapWindow&) = delete;
  ~MapWindow();

  std::span<const std::byte> bytes() const noexcept { return {begin_, size_}; }

 private:
  const std::byte* begin_;
  std::size_t size_;
  std::shared_ptr<std::atomic<std::int64_t>> unmap_cost_;
};

using MapWindowPtr = std::shared_ptr<const MapWindow>;

/// Windows of all files, within a limit of bytes; the least recently used one gives way. Every
/// member function may be called from any number of threads at once.
class KeptMaps {
 public:
  struct Limits {
    std::uint64_t bytes = 0;  ///< 0: nothing is kept
    /// Windows, however small. A process may have some 65,000 maps (vm.max_map_count).
    std::size_t windows = 4096;
    /// Where unmapping costs more than this, in ns for each MiB, reading the bytes costs less than
    /// mapping and unmapping them. Then most of the windows stay, and others are not mapped.
    std::int64_t dear_unmap = 125'000;
  };
  explicit KeptMaps(Limits limits);

  /// The process's own: an eighth of the memory that it may use, at most 16 GiB, so that the page
  /// tables take no more than 32 MiB. Keeps nothing where the address space is limited (ulimit -v).
  static KeptMaps& process();

  bool keeps() const noexcept { return limits_.bytes > 0; }

  /// The window with a number: its first byte is at number * MapWindow::kStep. It stays mapped
  /// while it is held, so hold it for one read only.
  /// @param file identifies the file, until forget().
  /// @param fd the file, open. @param size of the file in bytes, more than number * kStep.
  /// @return nullptr if it cannot be mapped, or is not worth it.
  MapWindowPtr get(const void* file, std::uint64_t number, int fd, std::uint64_t size) noexcept;
  /// Lets go of all windows of a file.
  void forget(const void* file) noexcept;

  /// Of all kept windows. They are pages of the page cache, which the kernel takes back when it
  /// needs memory.
  std::uint64_t bytes() const;

 private:
  using Key = std::pair<const void*, std::uint64_t>;
  struct Kept {
    MapWindowPtr window;
    std::list<Key>::iterator use;
  };

  MapWindowPtr find(const Key& key);
  bool is_full_and_dear(std::uint64_t bytes);
  void keep(const Key& key, const MapWindowPtr& window);
  MapWindowPtr take_out(std::map<Key, Kept>::iterator kept);

  const Limits limits_;
  const std::shared_ptr<std::atomic<std::int64_t>> unmap_cost_;
  mutable std::mutex mutex_;  // guards all below
  std::map<Key, Kept> kept_;
  std::list<Key> uses_;  ///< most recent first
  std::uint64_t bytes_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace reshardfs
