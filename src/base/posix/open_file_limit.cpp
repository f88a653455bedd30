// SPDX-License-Identifier: Apache-2.0
#include "base/posix/open_file_limit.h"

#include <sys/resource.h>

namespace reshardfs {
namespace {

// What a process holds besides its sources: /dev/fuse, logs, listings, the host program's own.
constexpr rlim_t kReserve = 256;

}  // namespace

void raise_open_file_limit(std::size_t files) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur >= static_cast<rlim_t>(files) + kReserve) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t open_file_limit() noexcept {
  rlimit limit{};
  // What POSIX grants every process.
  constexpr std::size_t kLeast = 20;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return static_cast<std::size_t>(limit.rlim_cur);
}

}  // namespace reshardfs
