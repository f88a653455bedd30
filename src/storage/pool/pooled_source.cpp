// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/pooled_source.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/process/counters.h"

namespace reshardfs {
namespace {

static_assert(BlockPool::kBlockBytes == BlockCache::kBlockBytes);

/// A part that is as large is read from the cache straight to its place.
constexpr std::size_t kLeastDirect = 64 << 10;

/// Without an identity that is certain, what is in the cache might be of another version.
std::shared_ptr<const CachedFetcher> with_cache(const RangeFetcherPtr& fetcher) {
  const std::shared_ptr<BlockCache>& cache = source_cache();
  if (cache == nullptr || fetcher->identity().empty()) return nullptr;
  return std::make_shared<const CachedFetcher>(fetcher, cache);
}

}  // namespace

PooledSource::PooledSource(RangeFetcherPtr fetcher, BlockPool& pool)
    : cached_(with_cache(fetcher)),
      fetcher_(cached_ ? RangeFetcherPtr(cached_) : std::move(fetcher)),
      pool_(pool),
      number_(pool.add_source()) {}

PooledSource::~PooledSource() {
  pool_.remove_source(number_);
}

void PooledSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  read({offset, out});
}

void PooledSource::read(const ReadRequest& part) const {
  auto [offset, out, foreseen] = part;
  require_in_source(*this, offset, out.size());
  if (out.empty()) return;
  if (!foreseen) read_ahead_of(ByteRange(offset, out.size()));
  if (cached_ == nullptr || out.size() < kLeastDirect) {
    return pool_.read(number_, *fetcher_, offset, out);
  }
  while (!out.empty()) {
    const auto block = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(
        out.size(), BlockPool::kBlockBytes - offset % BlockPool::kBlockBytes)));
    if (!cached_->read_kept(offset, block)) pool_.read(number_, *fetcher_, offset, block);
    out = out.subspan(block.size());
    offset += block.size();
  }
}

void PooledSource::read_ahead_of(const ByteRange& read) const noexcept {
  try {
    const auto advice =
        readers_.advance(this, size(), read, pool_.window(), StreamWindows::Clock::now());
    if (!advice.ahead.empty()) foresee(std::array{advice.ahead}, Foresight::kAhead);
  } catch (const std::exception&) {
    // Without it, reads are only slower.
  }
}

void PooledSource::read_many(std::span<const ReadRequest> parts) const {
  if (parts.size() > 1) {
    std::vector<ByteRange> ranges;
    ranges.reserve(parts.size());
    for (const ReadRequest& part : parts) ranges.emplace_back(part.offset, part.out.size());
    foresee(ranges, Foresight::kNow);
  }
  for (const ReadRequest& part : parts) read(part);
}

/// Leaves out blocks in the cache on disk, which are near enough.
std::vector<ByteRange> PooledSource::not_kept(std::span<const ByteRange> ranges) const {
  std::vector<ByteRange> missing;
  std::optional<std::uint64_t> known;  // a block
  bool has = false;
  for (const ByteRange& range : ranges) {
    for (std::uint64_t at = range.offset(); at < range.end();) {
      const std::uint64_t block = at / BlockPool::kBlockBytes;
      const std::uint64_t end = std::min(range.end(), (block + 1) * BlockPool::kBlockBytes);
      if (block != known) {
        known = block;
        has = cached_->has(block);
      }
      if (!has) missing.push_back(ByteRange::between(at, end));
      at = end;
    }
  }
  return missing;
}

void PooledSource::foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept {
  try {
    const ByteRange all = ByteRange::whole(size());
    for (const ByteRange& range : ranges) {
      if (!all.contains(range)) return;  // the read itself reports the error
    }
    if (cached_ != nullptr) {
      pool_.foresee(number_, *fetcher_, not_kept(ranges), when);
    } else {
      pool_.foresee(number_, *fetcher_, ranges, when);
    }
  } catch (const std::exception&) {
    // Without memory for it, it is fetched when it is read.
  }
}

}  // namespace reshardfs
