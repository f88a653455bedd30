// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace reshardfs {

/// Threads for work that waits for servers.
inline constexpr std::size_t kRequestsAtOnce = 32;

/// Calls work(0) ... work(count-1), in any order, on up to `threads` threads, this one among them
/// (0: a number that suits this machine and waiting for storage); on fewer where no more can be
/// started, which is reported as a fault. Returns when all are done. If calls throw, the
/// exception of the lowest index is thrown again, so that messages do not depend on timing. After
/// an Interrupted, no further call begins.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work,
                  std::size_t threads = 0);

}  // namespace reshardfs
