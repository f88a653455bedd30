// SPDX-License-Identifier: Apache-2.0
#include "storage/remote/cached_fetcher.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/fault_report.h"
#include "base/process/process_state.h"
#include "storage/pool/range_fetcher.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kBlock = BlockCache::kBlockBytes;

/// The spans that have the bytes from `begin` to before `end` of what `out` is for.
std::vector<std::span<std::byte>> spans_between(const std::vector<std::span<std::byte>>& out,
                                                std::uint64_t begin, std::uint64_t end) {
  std::vector<std::span<std::byte>> spans;
  std::uint64_t at = 0;
  for (const std::span<std::byte> span : out) {
    const std::uint64_t from = std::max(at, begin);
    const std::uint64_t to = std::min(at + span.size(), end);
    if (from < to) {
      spans.push_back(
          span.subspan(static_cast<std::size_t>(from - at), static_cast<std::size_t>(to - from)));
    }
    at += span.size();
  }
  return spans;
}

}  // namespace

namespace {

/// A child opens the directory anew: its cache has no thread yet, and locks of its own.
std::shared_ptr<BlockCache>* cache_like(const std::shared_ptr<BlockCache>* before) {
  auto cache = std::make_unique<std::shared_ptr<BlockCache>>();
  if (before == nullptr || *before == nullptr) return cache.release();
  try {
    *cache = BlockCache::open((*before)->options());
  } catch (const Error& error) {
    report_fault(LogEvent::kCacheFailed, "the cache of a child process",
                 std::string("the cache is not used after a fork: ") + error.what());
  }
  return cache.release();
}

ProcessState<std::shared_ptr<BlockCache>> the_cache("cache of sources", cache_like,
                                                    [](std::shared_ptr<BlockCache>& before) {
                                                      if (before != nullptr) before->leave();
                                                    });

}  // namespace

std::shared_ptr<BlockCache>& source_cache() noexcept {
  return the_cache.get();
}

CachedFetcher::CachedFetcher(RangeFetcherPtr fetcher, std::shared_ptr<BlockCache> cache)
    : fetcher_(std::move(fetcher)), cache_(std::move(cache)), key_(fetcher_->identity()) {}

std::uint64_t CachedFetcher::block_length(std::uint64_t block) const noexcept {
  return std::min(kBlock, size() - block * kBlock);
}

bool CachedFetcher::has(std::uint64_t block) const noexcept {
  return is_opened() && cache_->has(key_, block);
}

bool CachedFetcher::read_kept(std::uint64_t offset, std::span<std::byte> out) const noexcept {
  const std::uint64_t block = offset / kBlock;
  return is_opened() && cache_->read_part(key_, block, block_length(block), offset % kBlock, out);
}

void CachedFetcher::fetch(const ByteRange& range, std::vector<std::span<std::byte>> out,
                          Foresight when, Done done) const {
  const auto parts = std::make_shared<FetchParts>(std::move(done));
  const auto fetch_rest = [&](std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return;
    auto spans = spans_between(out, begin - range.offset(), end - range.offset());
    parts->add();
    // Not before they are as a whole: a part of a request may be of another one's blocks.
    const auto keep = [cache = cache_, key = key_, spans, parts, begin,
                       size = size()](const std::exception_ptr& failure) {
      std::uint64_t at = begin;
      for (const std::span<std::byte> span : spans) {
        const std::uint64_t length = std::min(kBlock, size - at / kBlock * kBlock);
        const bool whole = at % kBlock == 0 && span.size() == length;
        if (failure == nullptr && whole) cache->write(key, at / kBlock, span);
        at += span.size();
      }
      parts->end(failure);
    };
    try {
      fetcher_->fetch(ByteRange::between(begin, end), std::move(spans), when, keep);
    } catch (...) {
      parts->end(std::current_exception());
    }
  };
  std::uint64_t missing_from = range.offset();
  for (std::uint64_t at = range.offset(); at < range.end() && is_opened();) {
    const std::uint64_t block = at / kBlock;
    const std::uint64_t end = std::min(range.end(), (block + 1) * kBlock);
    const auto spans = spans_between(out, at - range.offset(), end - range.offset());
    const bool whole = at % kBlock == 0 && end - at == block_length(block);
    if (whole && spans.size() == 1 && cache_->read(key_, block, spans.front())) {
      fetch_rest(missing_from, at);
      missing_from = end;
    }
    at = end;
  }
  fetch_rest(missing_from, range.end());
  parts->end(nullptr);
}

}  // namespace reshardfs
