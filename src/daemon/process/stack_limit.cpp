// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>

#include "daemon/process/process_start.h"

namespace reshardfs {
namespace {

// Ten times what has been seen.
constexpr std::size_t kEnough = std::size_t{1} << 20U;

/// The C library takes the limit that the program was started with.
bool give_threads_enough() noexcept {
  pthread_attr_t attributes{};
  if (::pthread_getattr_default_np(&attributes) != 0) return false;
  std::size_t bytes = 0;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  const bool good = bytes >= kEnough || (::pthread_attr_setstacksize(&attributes, kEnough) == 0 &&
                                         ::pthread_setattr_default_np(&attributes) == 0);
  ::pthread_attr_destroy(&attributes);
  return good;
}

}  // namespace

bool has_enough_stack() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0) return true;
  if (limit.rlim_cur < kEnough) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, kEnough);
    if (limit.rlim_cur < kEnough || ::setrlimit(RLIMIT_STACK, &limit) != 0) return false;
  }
  return give_threads_enough();
}

}  // namespace reshardfs
