// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stop_token>

#include "cache/cache_directory.h"

namespace reshardfs {

struct SweepResult {
  int error = 0;  ///< 0, or the error number of the failure
  std::uint64_t evicted_records = 0;
};

/// Counts what the cache holds, puts it down in the ledger, removes what writers that are no more
/// have left, and evicts the least recently used records until no more than `target` bytes are
/// held. Takes some microseconds for each record. To be called with the lock of the sweep file.
SweepResult sweep(CacheDirectory& directory, std::uint64_t target,
                  const std::stop_token& stop) noexcept;

/// Removes what writers that are no more have left, and nothing else.
void remove_abandoned(CacheDirectory& directory, const std::stop_token& stop) noexcept;

}  // namespace reshardfs
