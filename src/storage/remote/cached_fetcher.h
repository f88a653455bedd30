// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "cache/block_cache.h"
#include "storage/pool/range_fetcher.h"

namespace reshardfs {

/// The cache on disk that all sources of the process share; nullptr if there is none. To be set
/// before the first source is opened, under a ForkLock where other threads run.
std::shared_ptr<BlockCache>& source_cache() noexcept;

/// Ranges of an object whose blocks may be in the cache already, and are kept there when they have
/// been fetched. The object has been opened, so that whoever asks may read it.
class CachedFetcher final : public RangeFetcher {
 public:
  /// @param fetcher has an identity.
  CachedFetcher(RangeFetcherPtr fetcher, std::shared_ptr<BlockCache> cache);

  const std::string& name() const noexcept override { return fetcher_->name(); }
  std::uint64_t size() const noexcept override { return fetcher_->size(); }
  std::int64_t mtime_ns() const noexcept override { return fetcher_->mtime_ns(); }
  FileStamp stamp() const noexcept override { return fetcher_->stamp(); }
  const std::string& identity() const noexcept override { return fetcher_->identity(); }
  bool is_opened() const noexcept override { return fetcher_->is_opened(); }
  bool is_remote() const noexcept override { return fetcher_->is_remote(); }
  void check_unchanged() const override { fetcher_->check_unchanged(); }
  bool answers() const noexcept override { return fetcher_->answers(); }
  bool by_blocks() const noexcept override { return true; }

  /// Blocks that are in the cache are there when it returns; the others are fetched.
  void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight when,
             Done done) const override;

  /// Whether the cache has a block; whether its bytes are right is found out by reading them.
  bool has(std::uint64_t block) const noexcept;
  /// Fills `out` from the cache, which must be in one block.
  /// @return false if it is not there.
  bool read_kept(std::uint64_t offset, std::span<std::byte> out) const noexcept;

 private:
  std::uint64_t block_length(std::uint64_t block) const noexcept;

  RangeFetcherPtr fetcher_;
  std::shared_ptr<BlockCache> cache_;
  ObjectKey key_;
};

}  // namespace reshardfs
