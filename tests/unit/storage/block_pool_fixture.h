// SPDX-License-Identifier: Apache-2.0
/// A pool whose fetches end when the test says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "hand_fetcher.h"
#include "storage/pool/block_pool.h"
#include "storage/stuck_read.h"

namespace reshardfs::test {

inline constexpr std::uint64_t kSector = BlockPool::kSectorBytes;
inline constexpr std::uint64_t kBlock = BlockPool::kBlockBytes;

using Ranges = std::vector<ByteRange>;

inline ByteRange sectors(std::uint64_t begin, std::uint64_t end) {
  return ByteRange::between(begin * kSector, end * kSector);
}
inline ByteRange blocks(std::uint64_t begin, std::uint64_t end) {
  return ByteRange::between(begin * kBlock, end * kBlock);
}

/// A pool of some blocks and an object that is fetched by hand.
class BlockPoolTest : public testing::Test {
 protected:
  using Answering = RangeFetcher::Answering;

  ~BlockPoolTest() override { fetcher_.bring_all(); }

  void make_pool(std::uint64_t count) {
    pool_ = std::make_unique<BlockPool>(count * kBlock);
    source_ = pool_->add_source();
  }
  void foresee(const Ranges& ranges, Foresight when = Foresight::kNow) {
    pool_->foresee(source_, fetcher_, ranges, when);
  }
  /// A read of another thread.
  std::future<bool> begin_read(std::uint64_t offset, std::size_t count) {
    return std::async(std::launch::async, [this, offset, count] {
      std::vector<std::byte> out(count);
      pool_->read(source_, fetcher_, offset, out);
      return is_of_object(out, offset);
    });
  }
  /// Reads a byte of a block. @return whether it had to be fetched.
  bool fetches(std::uint64_t block) {
    const std::size_t before = fetcher_.ranges().size();
    auto read = begin_read(block * kBlock, 1);
    until([&] { return fetcher_.waiting() > 0 || is_ready(read); });
    fetcher_.bring_all();
    EXPECT_TRUE(read.get());
    return fetcher_.ranges().size() > before;
  }
  static bool is_ready(const std::future<bool>& read) {
    return read.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  /// What a read throws that leaves what it would wait for.
  std::optional<StuckRead> leaves(LeftReads& left, std::uint64_t offset, std::size_t count) {
    std::vector<std::byte> out(count);
    try {
      const LeftReads::Scope scope(left);
      pool_->read(source_, fetcher_, offset, out);
    } catch (const StuckRead& stuck) {
      return stuck;
    }
    EXPECT_TRUE(is_of_object(out, offset));
    return std::nullopt;
  }
  /// The lengths of all requests.
  std::vector<std::uint64_t> lengths() const {
    std::vector<std::uint64_t> out;
    for (const ByteRange& range : fetcher_.ranges()) out.push_back(range.length());
    return out;
  }

  HandFetcher fetcher_{1'000 * kBlock + 12'345};
  std::unique_ptr<BlockPool> pool_;
  std::uint64_t source_ = 0;
};

}  // namespace reshardfs::test
