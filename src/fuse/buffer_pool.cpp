// SPDX-License-Identifier: Apache-2.0
#include "fuse/buffer_pool.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/posix/page_size.h"

namespace reshardfs {
namespace {

/// The largest read request that the kernel sends (see init() in operations.cpp).
constexpr std::size_t kUsualBytes = std::size_t{1} << 20;

}  // namespace

BufferPool::Lease BufferPool::take(std::size_t size) {
  Buffer buffer;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      buffer = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (buffer.size < size) {
    const std::size_t capacity = std::max<std::size_t>(kUsualBytes, whole_pages(size));
    buffer.memory.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes(), capacity)));
    if (buffer.memory == nullptr) throw std::bad_alloc();
    buffer.size = capacity;
  }
  return Lease(*this, std::move(buffer), size);
}

void BufferPool::give_back(Buffer buffer) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kMostFree) free_.push_back(std::move(buffer));
  } catch (const std::bad_alloc&) {
    // Then the buffer is freed here instead of kept.
  }
}

std::size_t BufferPool::free_buffers() const noexcept {
  const std::lock_guard lock(mutex_);
  return free_.size();
}

}  // namespace reshardfs
