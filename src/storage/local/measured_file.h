// SPDX-License-Identifier: Apache-2.0
/// Files on network and FUSE file systems, where the latency of a read may exceed its transfer time
/// by far.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/process/retry_once.h"
#include "storage/byte_source.h"
#include "storage/local/file_system_speed.h"
#include "storage/local/local_fetcher.h"
#include "storage/local/local_readers.h"
#include "storage/pool/block_pool.h"
#include "storage/pool/pooled_source.h"

namespace reshardfs {

/// Which files are treated as files of slow file systems. Set this before opening the first file.
enum class SlowFiles : std::uint8_t {
  kMeasured,  ///< files on network and FUSE file systems that prove to be slow
  kNone,      ///< none; with a cache on disk, all files on such file systems
  kAll,       ///< for tests
};
std::atomic<SlowFiles>& slow_files() noexcept;

/// Wraps an open file of a mounted file system for reading.
///
/// On network and FUSE file systems, reads are timed. While they are slow, the file counts as far:
/// it is read through the block pool, which fetches ahead, with threads that read many ranges at
/// once. With a cache on disk, all files on such file systems are read in this way, so that the
/// cache keeps their bytes.
///
/// Files on other file systems are returned unchanged. The kernel reads ahead on local disks and
/// answers from its cache at once, so a pool and more threads would only add cost.
ByteSourcePtr measured(ByteSourcePtr file);

/// See measured().
class MeasuredFile final : public ByteSource {
 public:
  struct Way {
    bool always_far = false;  ///< even if its file system is fast
    std::function<LocalReaders&()> readers = LocalReaders::process;
    BlockPool* pool = &BlockPool::process();
  };

  /// @param identity identifies the file's version; empty if it is not certain.
  MeasuredFile(ByteSourcePtr file, std::string identity,
               std::shared_ptr<FileSystemSpeed> file_system, Way way);

  const std::string& name() const override { return file_->name(); }
  std::uint64_t size() const override { return file_->size(); }
  std::int64_t mtime_ns() const override { return file_->mtime_ns(); }
  FileStamp stamp() const override { return file_->stamp(); }
  std::string identity() const override { return identity_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  void read_many(std::span<const ReadRequest> parts) const override;
  bool is_far() const noexcept override { return way_.always_far || file_system_->is_slow(); }
  void foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept override;
  /// Fails while the file is far, because each page of the mapping would have to be waited for.
  bool gather(const StridedRanges& ranges, std::byte* out) const override;
  void check_unchanged() const override { file_->check_unchanged(); }
  /// nullptr while the file is far, because the kernel would bypass the pool and the cache.
  std::shared_ptr<const Descriptor> descriptor() const override;

 private:
  struct Far {
    Far(std::shared_ptr<const LocalFetcher> its_fetcher, BlockPool& pool)
        : fetcher(std::move(its_fetcher)), source(fetcher, pool) {}

    std::shared_ptr<const LocalFetcher> fetcher;
    PooledSource source;
  };

  const Far& far() const;

  const ByteSourcePtr file_;
  const std::string identity_;
  const std::shared_ptr<FileSystemSpeed> file_system_;
  const Way way_;
  mutable RetryOnce was_far_;
  mutable std::optional<Far> far_;  ///< made when it is far for the first time
};

}  // namespace reshardfs
