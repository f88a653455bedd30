// SPDX-License-Identifier: Apache-2.0
#include "allocations.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace {

thread_local std::size_t allocated = 0;

void* allocate(std::size_t bytes) {
  allocated += bytes;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// For the whole program. The sanitizers watch malloc() and free() themselves.
void* operator new(std::size_t bytes) {
  return allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace reshardfs::damage {

std::size_t take_allocated_bytes() noexcept {
  return std::exchange(allocated, 0);
}

}  // namespace reshardfs::damage
