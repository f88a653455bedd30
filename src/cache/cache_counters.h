// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

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

}  // namespace reshardfs
