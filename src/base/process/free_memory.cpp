// SPDX-License-Identifier: Apache-2.0
#include "base/process/free_memory.h"

#include <malloc.h>

namespace reshardfs {

void keep_little_free_memory() noexcept {
#ifdef __GLIBC__
  // Each thread that finds the others' arenas busy would get one of its own.
  ::mallopt(M_ARENA_MAX, 2);
  // Named, as the limit would otherwise grow with the largest block that was freed.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
#endif
}

void return_free_memory() noexcept {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace reshardfs
