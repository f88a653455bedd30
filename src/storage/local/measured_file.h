// SPDX-License-Identifier: Apache-2.0
/// Files of network and FUSE file systems, whose reads may take much longer than their bytes do.
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

/// Which files are read as those of slow file systems are. To be set before the first is opened.
enum class SlowFiles : std::uint8_t {
  kMeasured,  ///< those of network and FUSE file systems that are found to be slow
  kNone,      ///< but with a cache on disk those of all such file systems
  kAll,       ///< for tests
};
std::atomic<SlowFiles>& slow_files() noexcept;

/// Of an open file of a file system that is mounted here: the way to read it.
///
/// On network and FUSE file systems its reads are timed, and as long as they take their time it is
/// far: read through the block pool, which fetches ahead, by threads that read many ranges at once.
/// With a cache on disk this goes for all files of such file systems: to keep what was read is what
/// a cache is for.
///
/// Files of other file systems are returned as they are. The kernel reads ahead on local disks, and
/// what it has in its cache is there at once: a pool and other threads would only cost.
ByteSourcePtr measured(ByteSourcePtr file);

/// See measured().
class MeasuredFile final : public ByteSource {
 public:
  struct Way {
    bool always_far = false;  ///< however fast its file system is
    std::function<LocalReaders&()> readers = LocalReaders::process;
    BlockPool* pool = &BlockPool::process();
  };

  /// @param identity tells the file's version from all others; empty if that is not certain.
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
  /// Not while it is far: each page of the map would be waited for.
  bool gather(const StridedRanges& ranges, std::byte* out) const override;
  void check_unchanged() const override { file_->check_unchanged(); }
  /// None while it is far: the kernel would pass by the pool and the cache.
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
