// SPDX-License-Identifier: Apache-2.0
/// What the pool is made of, for its own files.
#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "storage/pool/block_pool.h"

namespace reshardfs {

/// One copy out of the pool holds as many blocks at most.
inline constexpr std::uint64_t kBlocksAtOnce = 8;
/// Parts of what is fetched at once, as long as they do not get too small.
inline constexpr std::uint64_t kRangesAtOnce = 8;

using Mask = std::uint16_t;

/// Sectors from `begin` to before `end` of a block.
constexpr Mask mask_of(std::size_t begin, std::size_t end) noexcept {
  return static_cast<Mask>(((1U << end) - 1U) & ~((1U << begin) - 1U));
}

struct BlockPool::Block {
  Key key;
  std::uint64_t begin = 0;  ///< in the object
  std::size_t bytes = 0;    ///< fewer than kBlockBytes at the object's end
  Memory memory;
  Mask wanted = 0;  ///< by who is just looking
  Mask ready = 0;
  std::array<FetchPtr, kSectors> pending{};
  unsigned pins = 0;  ///< readers that copy
  bool was_read = false;
  bool has_source = true;  ///< somebody may still read it
  Clock::time_point made = Clock::now();
  std::uint64_t reads_before = 0;  ///< the pool's first_reads_ when it was made
  BlockList::iterator place;

  bool can_go() const noexcept {
    return pins == 0 && std::all_of(pending.begin(), pending.end(),
                                    [](const FetchPtr& fetch) { return fetch == nullptr; });
  }
  std::size_t sectors() const noexcept { return (bytes + kSectorBytes - 1) / kSectorBytes; }
};

/// Neighbouring sectors that one request brings.
struct BlockPool::Fetch {
  struct Part {
    BlockPtr block;
    std::size_t begin = 0;  ///< sector
    std::size_t end = 0;
  };
  std::vector<Part> parts;
  std::condition_variable arrived;
  bool done = false;  ///< guarded by the pool's mutex, as is the next
  std::exception_ptr failure;
  Clock::time_point started = Clock::now();

  std::uint64_t offset() const noexcept {
    return parts.front().block->begin + parts.front().begin * kSectorBytes;
  }
  static std::span<std::byte> bytes_of(const Part& part) noexcept {
    const std::size_t begin = part.begin * kSectorBytes;
    const std::size_t end = std::min(part.end * kSectorBytes, part.block->bytes);
    return {part.block->memory.get() + begin, end - begin};
  }
  std::uint64_t length() const noexcept {
    std::uint64_t sum = 0;
    for (const Part& part : parts) sum += bytes_of(part).size();
    return sum;
  }
};

/// Keeps blocks where they are. To be destroyed before the lock is.
class BlockPool::Pins {
 public:
  Pins(BlockPool& pool, std::unique_lock<std::mutex>& lock) noexcept : pool_(pool), lock_(lock) {}
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;
  ~Pins() {
    if (!lock_.owns_lock()) lock_.lock();
    for (const BlockPtr& block : blocks_) {
      --block->pins;
      pool_.drop_if_useless(*block);
    }
  }

  void add(BlockPtr block) {
    blocks_.push_back(std::move(block));
    ++blocks_.back()->pins;
  }
  const std::vector<BlockPtr>& blocks() const noexcept { return blocks_; }

 private:
  BlockPool& pool_;
  std::unique_lock<std::mutex>& lock_;
  std::vector<BlockPtr> blocks_;
};

}  // namespace reshardfs
