// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace reshardfs {

/// How far a check has come, in bytes read; for whoever shows it while the check runs.
struct CheckProgress {
  std::atomic<std::uint64_t> done{0};
  /// May grow, and shrink again, until the end.
  std::atomic<std::uint64_t> total{0};
};

}  // namespace reshardfs
