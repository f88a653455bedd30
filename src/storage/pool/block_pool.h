// SPDX-License-Identifier: Apache-2.0
/// Keeps blocks of remote sources in memory. A block fetched for one reader serves others that read
/// the same at about the same time, and blocks that a reader will need are fetched in advance.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/byte_range.h"
#include "storage/pool/range_fetcher.h"

namespace reshardfs {

/// Bytes are fetched in sectors, and kept in blocks of several sectors. A request may be for some
/// sectors of a block or for those of several blocks. To make room, the least recently used of the
/// blocks that were read is dropped; blocks that were fetched ahead and not read yet are dropped
/// only if there are no others. Every member function may be called from any number of threads at
/// once.
class BlockPool {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kBlockBytes = 1 << 20;
  static constexpr std::size_t kSectorBytes = 64 << 10;
  static constexpr std::size_t kSectors = kBlockBytes / kSectorBytes;
  /// The maximum size of one request, in bytes.
  static constexpr std::uint64_t kMaxRequest = 8 << 20;

  /// @param bytes the size of all blocks together.
  explicit BlockPool(std::uint64_t bytes);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  /// The process-wide pool.
  static BlockPool& process();
  /// Call this before the first source uses the pool.
  void set_capacity(std::uint64_t bytes) noexcept;
  std::uint64_t capacity() const noexcept { return capacity_; }

  /// Whether anything was read through the process's pool. If not, readers need not be tracked.
  static bool is_used() noexcept;

  /// A number that identifies a source's blocks.
  std::uint64_t add_source() noexcept;
  /// Drops the source's blocks.
  void remove_source(std::uint64_t source) noexcept;

  /// Fills `out` from `offset` on, and waits for what must be fetched. A request that fails, or is
  /// stuck, may be for more than `out`, or be somebody else's: then `out` is fetched by itself.
  /// @throws errors of fetching; StuckRead.
  void read(std::uint64_t source, const RangeFetcher& fetcher, std::uint64_t offset,
            std::span<std::byte> out);
  /// The same, but nothing is shared with other readers, or kept.
  void read_alone(const RangeFetcher& fetcher, std::uint64_t offset, std::span<std::byte> out);
  /// Runs `begin`, which gets what to call at the end, and waits for that.
  /// @throws its failure; StuckRead, but only a few times for one piece of work.
  void wait_for(const RangeFetcher& fetcher,
                const std::function<void(RangeFetcher::Done done)>& begin);
  /// Begins to fetch missing parts of the ranges, as far as there is room. Does not wait.
  void foresee(std::uint64_t source, const RangeFetcher& fetcher, std::span<const ByteRange> ranges,
               Foresight when);

  /// The number of bytes worth fetching ahead for all readers together: twice what the servers
  /// deliver during a request.
  std::uint64_t window() const noexcept;

  struct Figures {
    std::uint64_t blocks = 0;    ///< that are held
    std::uint64_t hits = 0;      ///< bytes that were present or being fetched
    std::uint64_t fetched = 0;   ///< bytes
    std::uint64_t requests = 0;  ///< by which they were fetched
    std::uint64_t unread = 0;    ///< bytes of blocks that were dropped without being read
  };
  Figures figures() const;

 private:
  struct Block;
  struct Key {
    std::uint64_t source = 0;
    std::uint64_t number = 0;
    bool operator==(const Key&) const = default;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const noexcept {
      return static_cast<std::size_t>((key.source * 0x9E3779B97F4A7C15U) ^
                                      (key.number * 0xC2B2AE3D27D4EB4FU));
    }
  };
  struct Fetch;
  class Pins;
  using FetchPtr = std::shared_ptr<Fetch>;
  using BlockPtr = std::shared_ptr<Block>;
  using BlockList = std::list<Block*>;
  using Memory = std::unique_ptr<std::byte[]>;  // NOLINT(modernize-avoid-c-arrays): not initialised

  // These need mutex_.
  BlockPtr find(const Key& key) const;
  BlockPtr make(const Key& key, std::uint64_t object_size, bool may_drop_unread);
  bool drop_one(BlockList& from);
  /// Of kBlockBytes.
  Memory new_memory();
  void keep_memory(Memory memory) noexcept;
  void drop(Block& block);
  void drop_if_useless(Block& block);
  void touch(Block& block);
  std::vector<FetchPtr> fetches_of(std::span<const BlockPtr> blocks, std::uint64_t longest) const;
  void claim(std::span<const FetchPtr> fetches) noexcept;

  void start(const RangeFetcher& fetcher, std::span<const FetchPtr> fetches,
             Foresight when) noexcept;
  void measure(const Fetch& fetch);
  void finished(Fetch& fetch, const std::exception_ptr& failure) noexcept;
  bool read_some(std::uint64_t source, const RangeFetcher& fetcher, std::uint64_t offset,
                 std::span<std::byte> out);
  enum class Whose : std::uint8_t { kOwn, kShared };
  bool await(std::unique_lock<std::mutex>& lock, const RangeFetcher& fetcher, const FetchPtr& fetch,
             Whose whose, bool may_leave);

  std::atomic<std::uint64_t> capacity_;
  std::atomic<std::uint64_t> next_source_{1};

  mutable std::mutex mutex_;  // guards all below
  std::unordered_map<Key, BlockPtr, HashKey> blocks_;
  BlockList unread_;  ///< oldest first
  BlockList read_;    ///< least recently used first
  std::vector<Memory> spare_;
  std::uint64_t first_reads_ = 0;  ///< blocks that were read at all, so far
  Figures figures_;
  Clock::time_point interval_begin_{};
  std::uint64_t interval_bytes_ = 0;  ///< that came since then

  std::atomic<std::uint64_t> rate_ = 0;         ///< bytes a second, lately
  std::atomic<std::int64_t> request_time_ = 0;  ///< microseconds, lately
};

}  // namespace reshardfs
