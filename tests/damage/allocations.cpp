// SPDX-License-Identifier: Apache-2.0
#include "allocations.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace {

thread_local std::size_t allocated = 0;

void* allocate_or_null(std::size_t bytes) noexcept {
  allocated += bytes;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* allocate(std::size_t bytes) {
  if (void* memory = allocate_or_null(bytes)) return memory;
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
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
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
