// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace reshardfs {

/// A pool of page-aligned buffers. It lends the buffer returned last, whose memory is still in the
/// processor's caches. Buffers for each thread would not be, because the kernel hands requests to
/// waiting threads in turn. It keeps kMostFree of them: those of reads that have been stuck, which
/// may be many more, are freed.
class BufferPool {
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  struct Buffer {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size = 0;
  };

 public:
  /// More than are in use at once where no read is stuck.
  static constexpr std::size_t kMostFree = 32;

  /// A buffer on loan; goes back to the pool at its end.
  class Lease {
   public:
    Lease(BufferPool& pool, Buffer buffer, std::size_t size)
        : pool_(pool), buffer_(std::move(buffer)), size_(size) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (buffer_.memory) pool_.give_back(std::move(buffer_));
    }

    std::span<std::byte> bytes() const noexcept { return {buffer_.memory.get(), size_}; }

   private:
    BufferPool& pool_;
    Buffer buffer_;
    std::size_t size_;
  };

  /// @throws std::bad_alloc
  Lease take(std::size_t size);
  /// How many it keeps.
  std::size_t free_buffers() const noexcept;

 private:
  void give_back(Buffer buffer) noexcept;

  mutable std::mutex mutex_;
  std::vector<Buffer> free_;  ///< guarded by mutex_
};

}  // namespace reshardfs
