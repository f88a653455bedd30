// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>

#include "cache/cache_directory.h"
#include "cache/record.h"

namespace reshardfs {

/// What one process has done with its cache. See BlockCache::Stats.
struct CacheCounters {
  std::atomic<std::uint64_t> hits = 0;
  std::atomic<std::uint64_t> misses = 0;
  std::atomic<std::uint64_t> value_hits = 0;
  std::atomic<std::uint64_t> value_misses = 0;
  std::atomic<std::uint64_t> bytes_read = 0;
  std::atomic<std::uint64_t> bytes_written = 0;
  std::atomic<std::uint64_t> bad_records = 0;
  std::atomic<std::uint64_t> evicted_records = 0;
  std::atomic<std::uint64_t> not_kept = 0;
  std::atomic<std::uint64_t> failures = 0;
};

/// Puts records into a cache and keeps its bound; one thread of a process does that. Failures are
/// counted and reported as faults; after one nothing is kept for a while.
class RecordWriter {
 public:
  /// @param max_bytes that all processes together may keep.
  RecordWriter(std::shared_ptr<CurrentDirectory> current, std::uint64_t max_bytes,
               std::shared_ptr<CacheCounters> counters) noexcept;

  /// Whether the last failure is long ago. May be called by any thread.
  bool is_ready() const noexcept;

  /// To be called once, before the first record: removes what killed processes have left, and what
  /// a larger bound has let in.
  void tidy(const std::stop_token& stop) noexcept;

  /// @param record kHeaderBytes, which this fills in, and the content.
  void keep(const RecordId& id, std::span<std::byte> record, const std::stop_token& stop) noexcept;

 private:
  /// What a record may have until it has its name.
  struct Place {
    int error = 0;              ///< EAGAIN: there is no room
    std::uint64_t recount = 0;  ///< that was the last one when it was counted
    Filling filling{{}, Descriptor()};
  };

  int try_keep(CacheDirectory& directory, const RecordPath& path, std::span<const std::byte> record,
               const std::stop_token& stop) noexcept;
  Place take_place(CacheDirectory& directory, std::uint64_t size,
                   const std::stop_token& stop) const noexcept;
  Place wait_for_place(CacheDirectory& directory, std::uint64_t size,
                       const std::stop_token& stop) noexcept;
  void give_up_place(CacheDirectory& directory, const Place& place, std::uint64_t size,
                     const std::stop_token& stop) noexcept;
  bool get_around(int error, const std::stop_token& stop) noexcept;
  int make_room(CacheDirectory& directory, std::uint64_t target,
                const std::stop_token& stop) noexcept;
  void fail(int error) noexcept;

  const std::shared_ptr<CurrentDirectory> current_;
  const std::uint64_t max_bytes_;
  const std::shared_ptr<CacheCounters> counters_;
  std::atomic<std::chrono::steady_clock::time_point> ready_at_{};
};

}  // namespace reshardfs
