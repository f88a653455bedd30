// SPDX-License-Identifier: Apache-2.0
#include "failing_allocations.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include <malloc.h>

namespace {

using reshardfs::no_memory::Lasting;
using reshardfs::no_memory::Threads;

constinit std::atomic<bool> active = false;
constinit std::atomic<long> left = 0;  ///< allocations until the one that fails
constinit long first = 0;              ///< what `left` began with
constinit std::atomic<bool> has_failed_once = false;
constinit Threads whose = Threads::kThisOne;
constinit Lasting how_long = Lasting::kOne;
constinit thread_local bool is_chosen = false;

bool fails() noexcept {
  if (!active.load(std::memory_order_acquire)) return false;
  if (whose == Threads::kThisOne && !is_chosen) return false;
  // For cleaning up behind an error the program keeps a reserve: keep_memory_for_cleaning_up().
  if (std::uncaught_exceptions() > 0) return false;
  const long before = left.fetch_sub(1);
  const bool now = how_long == Lasting::kOne ? before == 0 : before <= 0;
  if (now) has_failed_once = true;
  return now;
}

void* allocate_or_null(std::size_t bytes) noexcept {
  return fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}

void* allocate(std::size_t bytes) {
  if (void* const memory = allocate_or_null(bytes)) return memory;
  throw std::bad_alloc();
}

/// Who uses it still finds a null pointer, where no sanitizer finds him.
[[gnu::noinline]] void release(void* memory) noexcept {
  if (memory == nullptr) return;
  std::memset(memory, 0, ::malloc_usable_size(memory));
  asm volatile("" : : "r"(memory) : "memory");  // the compiler takes such writes for useless
  std::free(memory);
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
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}

namespace reshardfs::no_memory {

FailingAllocation::FailingAllocation(std::size_t number, Threads threads,
                                     Lasting lasting) noexcept {
  whose = threads;
  how_long = lasting;
  first = static_cast<long>(number);
  left = first;
  has_failed_once = false;
  is_chosen = true;
  active.store(true, std::memory_order_release);
}

FailingAllocation::~FailingAllocation() {
  active = false;
  is_chosen = false;
}

bool FailingAllocation::has_failed() const noexcept {
  return has_failed_once;
}

std::size_t FailingAllocation::count() noexcept {
  return static_cast<std::size_t>(first - left.load());
}

}  // namespace reshardfs::no_memory
