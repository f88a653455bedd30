// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>

#include "base/byte_range.h"

namespace reshardfs {

/// Detects sequential readers of a file, and decides how far ahead of them to fetch: 2 MiB at
/// first, doubled whenever a quarter of it has been read, up to a limit. A reader that jumps
/// elsewhere starts again.
///
/// What counts is the region of the file, and not who reads: threads that take blocks of a file by
/// turns are one reader, whose reads come in disorder, and readers whose regions meet become one.
/// Every member function may be called from any number of threads at once.
class StreamWindows {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::uint64_t kFirst = 2 << 20;
  /// Reads of one reader may arrive out of order, as the kernel's do.
  static constexpr std::uint64_t kDisorder = 8 << 20;
  /// So far behind the furthest read, others belong to the same reader: 16 threads with blocks of
  /// 8 MiB. Readers that are active at the same time share it.
  static constexpr std::uint64_t kBehind = 128 << 20;
  static constexpr std::size_t kMaxStreams = 1024;
  /// After this time without a read, a reader gets no share of the memory.
  static constexpr std::chrono::seconds kActive{2};

  struct Advice {
    bool foreseen = false;  ///< earlier advice covered the whole read
    ByteRange ahead{};      ///< the range to fetch; may be empty
  };

  enum class Begin : std::uint8_t {
    kAtSecondRead,  ///< of two that follow upon each other
    kAtFirstByte,   ///< also with a read of the file's beginning: such readers mostly go on
  };

  /// @param disorder reads within this distance of the last one belong to the same reader. With
  ///        less than kDisorder, no region is larger: a program that looks for headers comes back
  ///        to none.
  explicit StreamWindows(Begin begin = Begin::kAtSecondRead,
                         std::uint64_t disorder = kDisorder) noexcept
      : begin_(begin), disorder_(disorder) {}

  /// Call this for each read.
  /// @param file identifies the file.
  /// @param size the size of the file in bytes.
  /// @param largest the maximum number of bytes ahead, for all readers together.
  Advice advance(const void* file, std::uint64_t size, const ByteRange& read, std::uint64_t largest,
                 Clock::time_point now);
  /// Says that reading a range of the file requires fetching more bytes from its sources, as for
  /// columns of a matrix. The file's window takes this into account.
  /// @param factor at least 1
  void set_cost(const void* file, std::uint64_t factor) noexcept;
  /// Call this when the file will not be read again, because another one may get its address.
  void forget(const void* file) noexcept;

 private:
  struct Stream {
    const void* file = nullptr;
    std::uint64_t base = 0;     ///< from here to the horizon, all was read or advised
    std::uint64_t next = 0;     ///< end of the furthest read
    std::uint64_t horizon = 0;  ///< end of the advised range
    std::uint64_t window = 0;
    std::uint64_t grows_at = 0;  ///< offset at which the window doubles
    std::uint64_t cost = 1;      ///< bytes of sources for each byte
    unsigned in_a_row = 0;       ///< reads that were near the one before, but not behind it
    Clock::time_point used{};
  };

  using Streams = std::list<Stream>;

  bool has_regions() const noexcept { return disorder_ >= kDisorder; }

  static bool goes_on(Stream& stream, const ByteRange& read) noexcept;
  std::uint64_t active(Clock::time_point now) const noexcept;
  Streams::iterator stream_of(const void* file, const ByteRange& read) noexcept;
  Streams::iterator met_by(const Stream& stream, std::uint64_t wanted) noexcept;
  static void absorb(Stream& stream, const Stream& other) noexcept;

  const Begin begin_;
  const std::uint64_t disorder_;
  std::mutex mutex_;  // guards all below
  Streams streams_;   ///< last used first
};

}  // namespace reshardfs
