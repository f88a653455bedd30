// SPDX-License-Identifier: Apache-2.0
#include "core/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

#include "base/posix/page_size.h"
#include "base/process/process_state.h"

namespace reshardfs::python {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;
/// From here on: pages of its own.
constexpr std::size_t kMapped = 4 * kMiB;
/// From here on huge pages are asked for.
constexpr std::size_t kLarge = 4 * kMiB;
constexpr std::size_t kHugePage = 2 * kMiB;
/// What vectors of a processor are aligned to.
constexpr std::size_t kAlignment = 64;
/// Of what nobody uses at the moment.
constexpr std::size_t kMostKept = 32 * kMiB;
/// Of results that share pages: all of it stays as long as one of them is used.
constexpr std::size_t kShared = 16 * kMiB;
constexpr std::size_t kMostShared = kShared / 2;

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
  if (bytes >= kLarge) ::madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

struct Pages {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

/// Pages that were used, and are there for whoever needs as many.
class KeptPages {
 public:
  /// None where there are none that fit.
  Pages take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    // The last ones first: they are still in a processor's cache.
    const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [bytes](const Pages& pages) {
      return pages.bytes >= bytes && pages.bytes / 2 <= bytes;
    });
    if (found == kept_.rend()) return {};
    const Pages pages = *found;
    kept_.erase(std::next(found).base());
    bytes_ -= pages.bytes;
    return pages;
  }

  void give(const Pages& pages) noexcept {
    const std::lock_guard lock(mutex_);
    if (pages.bytes > kMostKept || !add(pages)) {
      ::munmap(pages.begin, pages.bytes);
      return;
    }
    while (bytes_ > kMostKept) {
      ::munmap(kept_.front().begin, kept_.front().bytes);
      bytes_ -= kept_.front().bytes;
      kept_.erase(kept_.begin());
    }
  }

 private:
  bool add(const Pages& pages) noexcept {
    try {
      kept_.push_back(pages);
    } catch (const std::bad_alloc&) {
      return false;
    }
    bytes_ += pages.bytes;
    return true;
  }

  std::mutex mutex_;  // guards both below
  std::vector<Pages> kept_;
  std::size_t bytes_ = 0;
};

ProcessState<KeptPages> kept_pages("Python's kept pages", make_new<KeptPages>);

}  // namespace

Memory::Memory(std::size_t bytes) : size_(bytes) {
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  if (bytes >= kMapped) {
    Pages pages = kept_pages.get().take(bytes);
    if (pages.begin == nullptr) {
      pages.bytes = whole_pages(bytes);
      pages.begin = map_pages(pages.bytes);
    }
    data_ = pages.begin;
    mapped_ = pages.bytes;
    return;
  }
  void* place = std::aligned_alloc(kAlignment, rounded_up(bytes + 1, kAlignment));
  if (place == nullptr) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(place);
}

Memory::~Memory() {
  if (whole_ != nullptr) return;
  if (mapped_ > 0) {
    // A child of a fork has the memory of its parent, and keeps pages of its own.
    KeptPages* const kept = kept_pages.made();
    if (kept == nullptr) {
      ::munmap(data_, mapped_);
    } else {
      kept->give({data_, mapped_});
    }
  } else {
    std::free(data_);
  }
}

std::vector<MemoryPtr> memory_for(const std::vector<std::size_t>& sizes) {
  std::vector<MemoryPtr> results;
  results.reserve(sizes.size());
  std::size_t next = 0;
  while (next < sizes.size()) {
    std::size_t shared = 0;
    std::size_t end = next;
    while (end < sizes.size() && sizes[end] < kMostShared && shared + sizes[end] <= kShared) {
      shared = rounded_up(shared + sizes[end++], kAlignment);
    }
    if (end <= next + 1) {  // alone
      results.push_back(std::make_shared<Memory>(sizes[next++]));
      continue;
    }
    const auto whole = std::make_shared<Memory>(shared);
    std::size_t at = 0;
    for (; next < end; ++next) {
      results.push_back(std::make_shared<Memory>(whole, whole->bytes().subspan(at, sizes[next])));
      at = rounded_up(at + sizes[next], kAlignment);
    }
  }
  return results;
}

}  // namespace reshardfs::python
