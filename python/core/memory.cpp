// SPDX-License-Identifier: Apache-2.0
#include "core/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace reshardfs::python {
namespace {

/// From here on huge pages are asked for: to give a process small ones takes as long as to copy
/// what is read into them.
constexpr std::size_t kLarge = std::size_t{4} << 20U;
constexpr std::size_t kHugePage = std::size_t{2} << 20U;
/// What vectors of a processor are aligned to.
constexpr std::size_t kAlignment = 64;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Mapped at a multiple of a huge page.
std::byte* map_pages(std::size_t bytes) {
  void* place = ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(place);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = rounded_up(address, kHugePage) - address;
  if (before > 0) ::munmap(begin, before);
  if (before < kHugePage) ::munmap(begin + before + bytes, kHugePage - before);
  ::madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

Memory::Memory(std::size_t bytes) : size_(bytes) {
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  if (bytes >= kLarge) {
    constexpr std::size_t kPage = 4096;
    mapped_ = rounded_up(bytes, kPage);
    data_ = map_pages(mapped_);
    return;
  }
  void* place = std::aligned_alloc(kAlignment, rounded_up(bytes + 1, kAlignment));
  if (place == nullptr) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(place);
}

Memory::~Memory() {
  if (mapped_ > 0) {
    ::munmap(data_, mapped_);
  } else {
    std::free(data_);
  }
}

}  // namespace reshardfs::python
