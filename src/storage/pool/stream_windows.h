// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>

#include "base/byte_range.h"

namespace reshardfs {

/// Finds out who reads a file from one end to the other, and how far ahead of such a reader to
/// fetch: from 2 MiB on, and twice as far whenever a quarter of it has been read, up to a limit.
/// Who jumps elsewhere begins anew. Every member function may be called from any number of threads
/// at once.
class StreamWindows {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::uint64_t kFirst = 2 << 20;
  /// Reads of one reader may come in another order than their offsets have: the kernel's do.
  static constexpr std::uint64_t kDisorder = 8 << 20;
  static constexpr std::size_t kMaxStreams = 1024;
  /// A reader that has not read for so long takes no part of the memory any more.
  static constexpr std::chrono::seconds kActive{2};

  struct Advice {
    bool foreseen = false;  ///< all of the read was in what was advised before
    ByteRange ahead{};      ///< to be fetched; may be empty
  };

  enum class Begin : std::uint8_t {
    kAtSecondRead,  ///< of two that follow upon each other
    kAtFirstByte,   ///< also with a read of the file's beginning: such readers mostly go on
  };

  /// @param disorder reads that are as far from the last one are of the same reader.
  explicit StreamWindows(Begin begin = Begin::kAtSecondRead,
                         std::uint64_t disorder = kDisorder) noexcept
      : begin_(begin), disorder_(disorder) {}

  /// To be called for each read.
  /// @param file tells files apart.
  /// @param size bytes of the file.
  /// @param largest bytes ahead, for all readers together.
  Advice advance(const void* file, std::uint64_t size, const ByteRange& read, std::uint64_t largest,
                 Clock::time_point now);
  /// What was advised for a file is many times as much of its sources: the columns of a matrix are,
  /// which lie between others. Its window takes that into account.
  /// @param factor at least 1
  void set_cost(const void* file, std::uint64_t factor) noexcept;
  /// The file will not be read any more: another one may get its address.
  void forget(const void* file) noexcept;

 private:
  struct Stream {
    const void* file = nullptr;
    std::uint64_t next = 0;     ///< behind the furthest read
    std::uint64_t horizon = 0;  ///< behind what was advised
    std::uint64_t window = 0;
    std::uint64_t grows_at = 0;  ///< where it is twice as large
    std::uint64_t cost = 1;      ///< bytes of sources for each byte
    unsigned in_a_row = 0;       ///< reads that were near the one before, but not behind it
    Clock::time_point used{};
  };

  static bool goes_on(Stream& stream, const ByteRange& read) noexcept;
  std::uint64_t active(Clock::time_point now) const noexcept;

  const Begin begin_;
  const std::uint64_t disorder_;
  std::mutex mutex_;           // guards all below
  std::list<Stream> streams_;  ///< last used first
};

}  // namespace reshardfs
