// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cache/block_cache.h"
#include "storage/pool/range_fetcher.h"

namespace reshardfs {

/// The cache on disk that all sources of the process share; nullptr if there is none. Set it before
/// opening the first source, under a ForkLock if other threads run.
std::shared_ptr<BlockCache>& source_cache() noexcept;

/// Fetches ranges of an object through the cache. The object must be open, which shows that the
/// user may read it.
class CachedFetcher final : public RangeFetcher {
 public:
  /// @param fetcher must have an identity.
  CachedFetcher(RangeFetcherPtr fetcher, std::shared_ptr<BlockCache> cache);

  const std::string& name() const noexcept override { return fetcher_->name(); }
  std::uint64_t size() const noexcept override { return fetcher_->size(); }
  std::int64_t mtime_ns() const noexcept override { return fetcher_->mtime_ns(); }
  FileStamp stamp() const noexcept override { return fetcher_->stamp(); }
  const std::string& identity() const noexcept override { return fetcher_->identity(); }
  bool is_opened() const noexcept override { return fetcher_->is_opened(); }
  bool is_remote() const noexcept override { return fetcher_->is_remote(); }
  void check_unchanged() const override { fetcher_->check_unchanged(); }
  Answering answering() const noexcept override { return fetcher_->answering(); }
  std::chrono::steady_clock::duration patience() const noexcept override {
    return fetcher_->patience();
  }
  bool by_blocks() const noexcept override { return true; }

  /// Cached blocks are complete when it returns; the others are being fetched.
  void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight when,
             Done done) const override;

  /// Whether the cache has a block. Only reading the block checks its bytes.
  bool has(std::uint64_t block) const noexcept;
  /// Fills `out`, which must be in one block, from the cache.
  /// @return false if the cache does not have it.
  bool read_kept(std::uint64_t offset, std::span<std::byte> out) const noexcept;

 private:
  std::uint64_t block_length(std::uint64_t block) const noexcept;

  RangeFetcherPtr fetcher_;
  std::shared_ptr<BlockCache> cache_;
  ObjectKey key_;
};

}  // namespace reshardfs
