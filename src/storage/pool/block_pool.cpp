// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/block_pool.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "base/process/process_state.h"
#include "storage/pool/pool_blocks.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kDefaultCapacity = std::uint64_t{256} << 20U;
/// What lies between two ranges is fetched with them if it is no longer: that costs less than
/// another request.
constexpr std::uint64_t kBridgedSectors = 8;
/// Bytes that were fetched ahead and have not been read for this long will not be read; nor will
/// those that were overtaken: as many others were read since then as readers that share the memory
/// have ahead of them.
constexpr std::chrono::seconds kForgotten{10};

constexpr std::size_t kMostSpare = 16;

constexpr std::chrono::milliseconds kRateInterval{100};
constexpr std::uint64_t kLeastWindow = 16 << 20;

/// Sectors of the whole object.
struct Sectors {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// @param bridged gaps of up to this many bytes are fetched, too.
std::vector<Sectors> sectors_of(std::span<const ByteRange> ranges, std::uint64_t bridged) {
  std::vector<Sectors> all;
  all.reserve(ranges.size());
  for (const ByteRange& range : ranges) {
    if (range.empty()) continue;
    all.push_back({range.offset() / BlockPool::kSectorBytes,
                   (range.end() - 1) / BlockPool::kSectorBytes + 1});
  }
  std::ranges::sort(all, {}, &Sectors::begin);
  std::vector<Sectors> joined;
  for (const Sectors& next : all) {
    if (!joined.empty() && next.begin <= joined.back().end + bridged) {
      joined.back().end = std::max(joined.back().end, next.end);
    } else {
      joined.push_back(next);
    }
  }
  return joined;
}

std::atomic<bool> pool_is_used = false;

}  // namespace

BlockPool::BlockPool(std::uint64_t bytes) : capacity_(bytes) {
  spare_.reserve(kMostSpare);
}

BlockPool::~BlockPool() = default;

namespace {

ProcessState<BlockPool> the_pool("block pool", [](const BlockPool* before) {
  return new BlockPool(before == nullptr ? kDefaultCapacity : before->capacity());
});

}  // namespace

BlockPool& BlockPool::process() {
  return the_pool.get();
}

bool BlockPool::is_used() noexcept {
  return pool_is_used.load(std::memory_order_relaxed);
}

void BlockPool::set_capacity(std::uint64_t bytes) noexcept {
  capacity_ = std::max<std::uint64_t>(bytes, kBlocksAtOnce * kBlockBytes);
}

std::uint64_t BlockPool::add_source() noexcept {
  pool_is_used = true;
  return next_source_++;
}

void BlockPool::remove_source(std::uint64_t source) noexcept {
  const std::scoped_lock lock(mutex_);
  for (BlockList* list : {&unread_, &read_}) {
    for (auto next = list->begin(); next != list->end();) {
      Block* const block = *next++;
      if (block->key.source != source) continue;
      block->has_source = false;
      drop_if_useless(*block);
    }
  }
}

BlockPool::Figures BlockPool::figures() const {
  const std::scoped_lock lock(mutex_);
  Figures figures = figures_;
  figures.blocks = blocks_.size();
  return figures;
}

BlockPool::BlockPtr BlockPool::find(const Key& key) const {
  const auto found = blocks_.find(key);
  return found == blocks_.end() ? nullptr : found->second;
}

BlockPool::Memory BlockPool::new_memory() {
  // NOLINTNEXTLINE(modernize-avoid-c-arrays): filling it with zeros would take its time
  if (spare_.empty()) return std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
  Memory memory = std::move(spare_.back());
  spare_.pop_back();
  return memory;
}

/// Pages that are in place already are worth more than what the system would do with them.
void BlockPool::keep_memory(Memory memory) noexcept {
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(memory));
}

void BlockPool::drop(Block& block) {
  if (!block.was_read && block.ready != 0) figures_.unread += block.bytes;
  (block.was_read ? read_ : unread_).erase(block.place);
  keep_memory(std::move(block.memory));
  const BlockPtr last = find(block.key);  // it is freed behind this
  blocks_.erase(block.key);
}

/// Drops a block without any bytes, or without a source.
void BlockPool::drop_if_useless(Block& block) {
  if (block.can_go() && (block.ready == 0 || !block.has_source)) drop(block);
}

bool BlockPool::drop_one(BlockList& from) {
  const auto found =
      std::find_if(from.begin(), from.end(), [](const Block* block) { return block->can_go(); });
  if (found == from.end()) return false;
  drop(**found);
  return true;
}

/// @return nullptr if there is no room.
BlockPool::BlockPtr BlockPool::make(const Key& key, std::uint64_t object_size,
                                    bool may_drop_unread) {
  const std::uint64_t most = capacity_ / kBlockBytes;
  if (!may_drop_unread && unread_.size() >= most / 4 * 3) {
    const auto forgotten =
        std::find_if(unread_.begin(), unread_.end(), [&, now = Clock::now()](const Block* block) {
          const bool is_overtaken = first_reads_ - block->reads_before > most / 4;
          return block->can_go() && (is_overtaken || now - block->made > kForgotten);
        });
    if (forgotten == unread_.end()) return nullptr;
    drop(**forgotten);
  }
  if (blocks_.size() >= most && !drop_one(read_) && !(may_drop_unread && drop_one(unread_))) {
    return nullptr;
  }
  auto block = std::make_shared<Block>();
  block->key = key;
  block->reads_before = first_reads_;
  block->begin = key.number * kBlockBytes;
  block->bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(kBlockBytes, object_size - block->begin));
  block->memory = new_memory();
  // What needs memory comes first: a list must not have a block that the table has not.
  BlockList place{block.get()};
  blocks_.emplace(key, block);
  block->place = place.begin();
  unread_.splice(unread_.end(), place);
  return block;
}

void BlockPool::touch(Block& block) {
  if (!block.was_read) ++first_reads_;
  read_.splice(read_.end(), block.was_read ? read_ : unread_, block.place);
  block.was_read = true;
}

/// What is wanted and neither there nor under way.
std::vector<BlockPool::FetchPtr> BlockPool::fetches_of(std::span<const BlockPtr> blocks,
                                                       std::uint64_t longest) const {
  std::vector<FetchPtr> fetches;
  std::uint64_t end = 0;     // of the last fetch, in the object
  std::uint64_t length = 0;  // of the last fetch
  for (const BlockPtr& block : blocks) {
    for (std::size_t sector = 0; sector < block->sectors(); ++sector) {
      const Mask bit = mask_of(sector, sector + 1);
      const bool missing = (block->wanted & bit) != 0 && (block->ready & bit) == 0 &&
                           block->pending[sector] == nullptr;
      if (!missing) continue;
      const std::uint64_t begin = block->begin + sector * kSectorBytes;
      if (fetches.empty() || begin != end || length >= longest) {
        fetches.push_back(std::make_shared<Fetch>());
        length = 0;
      }
      std::vector<Fetch::Part>& parts = fetches.back()->parts;
      if (!parts.empty() && parts.back().block == block) {
        parts.back().end = sector + 1;
      } else {
        parts.push_back({block, sector, sector + 1});
      }
      end = begin + kSectorBytes;
      length += kSectorBytes;
    }
  }
  return fetches;
}

/// From now on the fetches' sectors are under way: they must be started.
void BlockPool::claim(std::span<const FetchPtr> fetches) noexcept {
  for (const FetchPtr& fetch : fetches) {
    for (const Fetch::Part& part : fetch->parts) {
      std::fill(part.block->pending.begin() + static_cast<std::ptrdiff_t>(part.begin),
                part.block->pending.begin() + static_cast<std::ptrdiff_t>(part.end), fetch);
    }
    figures_.fetched += fetch->length();
  }
  figures_.requests += fetches.size();
}

void BlockPool::start(const RangeFetcher& fetcher, std::span<const FetchPtr> fetches,
                      Foresight when) noexcept {
  for (const FetchPtr& fetch : fetches) {
    try {
      std::vector<std::span<std::byte>> out;
      for (const Fetch::Part& part : fetch->parts) out.push_back(Fetch::bytes_of(part));
      fetcher.fetch(
          ByteRange(fetch->offset(), fetch->length()), std::move(out), when,
          [this, fetch](const std::exception_ptr& failure) { finished(*fetch, failure); });
    } catch (...) {
      finished(*fetch, std::current_exception());
    }
  }
}

/// Needs mutex_.
void BlockPool::measure(const Fetch& fetch) {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  const auto now = Clock::now();
  const std::int64_t took = duration_cast<microseconds>(now - fetch.started).count();
  const std::int64_t before = request_time_;
  request_time_ = before == 0 ? took : before + (took - before) / 8;
  interval_bytes_ += fetch.length();
  const auto interval = now - interval_begin_;
  if (interval < kRateInterval) return;
  // The first one begins with the first request that has come.
  if (interval_begin_ != Clock::time_point() && interval < 4 * kRateInterval) {
    const double seconds = std::chrono::duration<double>(interval).count();
    rate_ = static_cast<std::uint64_t>(static_cast<double>(interval_bytes_) / seconds);
  }
  interval_begin_ = now;
  interval_bytes_ = 0;
}

std::uint64_t BlockPool::window() const noexcept {
  const std::uint64_t most = capacity_ / 2;
  const auto in_flight = static_cast<std::uint64_t>(static_cast<double>(rate_) *
                                                    static_cast<double>(request_time_) / 1e6);
  return std::clamp<std::uint64_t>(2 * in_flight, std::min(kLeastWindow, most), most);
}

void BlockPool::finished(Fetch& fetch, const std::exception_ptr& failure) noexcept {
  const std::scoped_lock lock(mutex_);
  for (const Fetch::Part& part : fetch.parts) {
    std::fill(part.block->pending.begin() + static_cast<std::ptrdiff_t>(part.begin),
              part.block->pending.begin() + static_cast<std::ptrdiff_t>(part.end), nullptr);
    if (failure == nullptr) {
      part.block->ready = static_cast<Mask>(part.block->ready | mask_of(part.begin, part.end));
    }
  }
  if (failure == nullptr) measure(fetch);
  for (const Fetch::Part& part : fetch.parts) drop_if_useless(*part.block);
  fetch.failure = failure;
  fetch.done = true;
  fetch.arrived.notify_all();
}

void BlockPool::foresee(std::uint64_t source, const RangeFetcher& fetcher,
                        std::span<const ByteRange> ranges, Foresight when) {
  const std::vector<Sectors> wanted =
      sectors_of(ranges, when == Foresight::kApart ? 0 : kBridgedSectors);
  std::unique_lock lock(mutex_);
  Pins pins(*this, lock);
  BlockPtr block;
  std::uint64_t missing = 0;
  for (const Sectors& part : wanted) {
    for (std::uint64_t at = part.begin; at < part.end;) {
      const Key key{source, at / kSectors};
      const std::uint64_t end = std::min(part.end, (key.number + 1) * kSectors);
      if (block == nullptr || block->key != key) {
        block = find(key);
        if (block == nullptr) block = make(key, fetcher.size(), when != Foresight::kAhead);
        if (block == nullptr) break;  // the rest is fetched when it is read
        block->wanted = 0;
        pins.add(block);
      }
      const Mask mask = fetcher.by_blocks() ? mask_of(0, block->sectors())
                                            : mask_of(at % kSectors, (end - 1) % kSectors + 1);
      block->wanted = static_cast<Mask>(block->wanted | mask);
      missing += static_cast<std::uint64_t>(std::popcount(static_cast<Mask>(mask & ~block->ready)));
      at = end;
    }
    if (block == nullptr) break;
  }
  const std::uint64_t longest =
      std::clamp<std::uint64_t>(missing * kSectorBytes / kRangesAtOnce, kBlockBytes, kMaxRequest);
  const std::vector<FetchPtr> fetches = fetches_of(pins.blocks(), longest);
  claim(fetches);
  lock.unlock();
  start(fetcher, fetches, when);
}

}  // namespace reshardfs
