// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "storage/byte_source.h"
#include "storage/pool/block_pool.h"
#include "storage/pool/range_fetcher.h"
#include "storage/pool/stream_windows.h"
#include "storage/remote/cached_fetcher.h"

namespace reshardfs {

/// A remote object or a slow file, read through the pool.
class PooledSource final : public ByteSource {
 public:
  explicit PooledSource(RangeFetcherPtr fetcher, BlockPool& pool = BlockPool::process());
  PooledSource(const PooledSource&) = delete;
  PooledSource& operator=(const PooledSource&) = delete;
  ~PooledSource() override;

  const std::string& name() const override { return fetcher_->name(); }
  std::uint64_t size() const override { return fetcher_->size(); }
  std::int64_t mtime_ns() const override { return fetcher_->mtime_ns(); }
  FileStamp stamp() const override { return fetcher_->stamp(); }
  std::string identity() const override { return fetcher_->identity(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  void read_many(std::span<const ReadRequest> parts) const override;
  bool is_far() const noexcept override { return true; }
  bool is_remote() const noexcept override { return fetcher_->is_remote(); }
  void foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept override;
  void check_unchanged() const override { fetcher_->check_unchanged(); }

 private:
  void read(const ReadRequest& part) const;
  void read_ahead_of(const ByteRange& read) const noexcept;

  std::vector<ByteRange> not_kept(std::span<const ByteRange> ranges) const;

  std::shared_ptr<const CachedFetcher> cached_;  ///< nullptr without a cache on disk
  RangeFetcherPtr fetcher_;
  BlockPool& pool_;
  std::uint64_t number_;
  /// Sequential readers whose reads were not announced with foresee(). They count from the second
  /// read on, because a program that looks for headers does not read on.
  mutable StreamWindows readers_{StreamWindows::Begin::kAtSecondRead, BlockPool::kSectorBytes};
};

}  // namespace reshardfs
