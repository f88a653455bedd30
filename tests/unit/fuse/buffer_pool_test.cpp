// SPDX-License-Identifier: Apache-2.0
#include "fuse/buffer_pool.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

namespace reshardfs {
namespace {

TEST(BufferPool, GivesPageAlignedMemoryOfTheSizeAskedFor) {
  BufferPool pool;
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, (std::size_t{1} << 20) + 1}) {
    const auto lease = pool.take(size);
    EXPECT_EQ(lease.bytes().size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lease.bytes().data()) % 4096, 0U);
    std::memset(lease.bytes().data(), 1, size);
  }
}

TEST(BufferPool, UsesTheLastBufferAgain) {
  BufferPool pool;
  const std::byte* first = pool.take(10).bytes().data();
  EXPECT_EQ(pool.take(20).bytes().data(), first);
  EXPECT_EQ(pool.take(std::size_t{1} << 20).bytes().data(), first) << "as large as most reads";
}

// The sanitizers end a program that asks for so much.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(BufferPool, SaysThatThereIsNoMemory) {
  BufferPool pool;
  EXPECT_THROW(pool.take(std::size_t{1} << 62), std::bad_alloc);
  EXPECT_EQ(pool.free_buffers(), 0U);
}
#endif

TEST(BufferPool, KeepsNoMoreThanAreInUseWithoutAStall) {
  BufferPool pool;
  {
    std::vector<BufferPool::Lease> stuck;
    for (std::size_t i = 0; i < 3 * BufferPool::kMostFree; ++i) stuck.push_back(pool.take(10));
    EXPECT_EQ(pool.free_buffers(), 0U);
  }
  EXPECT_EQ(pool.free_buffers(), BufferPool::kMostFree);
}

TEST(BufferPool, FreesWhatItDoesNotKeep) {
  BufferPool pool;
  const auto bytes_in_use_after = [&pool](std::size_t leases) {
    {
      std::vector<BufferPool::Lease> stuck;
      for (std::size_t i = 0; i < leases; ++i) stuck.push_back(pool.take(10));
    }
    const auto memory = ::mallinfo2();
    return memory.uordblks + memory.hblkhd;
  };
  bytes_in_use_after(BufferPool::kMostFree);
  const std::size_t kept = bytes_in_use_after(BufferPool::kMostFree);
  EXPECT_LT(bytes_in_use_after(2 * BufferPool::kMostFree), kept + (std::size_t{1} << 20));
}

TEST(BufferPool, NeverLendsOneBufferTwice) {
  BufferPool pool;
  const auto one = pool.take(10);
  const auto other = pool.take(10);
  EXPECT_NE(one.bytes().data(), other.bytes().data());
}

}  // namespace
}  // namespace reshardfs
