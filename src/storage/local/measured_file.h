// SPDX-License-Identifier: Apache-2.0
/// Files whose reads are looked after: on network and FUSE file systems, their latency may exceed
/// their transfer time by far, and on any they may hang.
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

/// Wraps an open file for reading.
///
/// On network and FUSE file systems, reads are timed. While they are slow, the file counts as far:
/// it is read through the block pool, which fetches ahead, with threads that read many ranges at
/// once. With a cache on disk, all files on such file systems are read in this way, so that the
/// cache keeps their bytes.
///
/// On other file systems, the thread that needs the bytes reads them. The kernel reads ahead on
/// local disks and answers from its cache at once, so a pool and more threads would only add cost.
///
/// If a read gets stuck, threads that may leave stuck reads (LeftReads) no longer read files of
/// that file system themselves, on whatever disk it is.
ByteSourcePtr measured(ByteSourcePtr file);

/// See measured().
class MeasuredFile final : public ByteSource {
 public:
  struct Way {
    bool is_timed = true;
    bool is_pooled = true;    ///< while its file system is slow
    bool always_far = false;  ///< even if its file system is fast
    std::function<LocalReaders&()> readers = LocalReaders::process;
    BlockPool* pool = &BlockPool::process();

    /// Of a file whose file system is timed.
    /// @param identity of its version, which a cache on disk asks for; empty if it is not certain.
    static Way of(SlowFiles slow, const std::optional<std::string>& identity);
  };

  /// @param identity identifies the file's version; empty if it is not certain, nothing if the file
  ///        is to be asked.
  MeasuredFile(ByteSourcePtr file, std::optional<std::string> identity,
               std::shared_ptr<FileSystemSpeed> file_system, Way way);

  const std::string& name() const override { return file_->name(); }
  std::uint64_t size() const override { return file_->size(); }
  std::int64_t mtime_ns() const override { return file_->mtime_ns(); }
  FileStamp stamp() const override { return file_->stamp(); }
  std::string identity() const override { return identity_ ? *identity_ : file_->identity(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  void read_many(std::span<const ReadRequest> parts) const override;
  bool is_far() const noexcept override {
    return way_.always_far || (way_.is_pooled && file_system_->is_slow());
  }
  void foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept override;
  /// Fails while the file is far, because each page of the mapping would have to be waited for.
  bool gather(const StridedRanges& ranges, std::byte* out) const override;
  void check_unchanged() const override;
  /// nullptr while the file is far, because the kernel would bypass the pool and the cache.
  std::shared_ptr<const Descriptor> descriptor() const override;

 private:
  const LocalFetcher& fetcher() const;
  const PooledSource& pooled() const;
  /// Whether this thread is not to wait for the file itself.
  bool is_left() const noexcept;
  template <typename Read>
  void read_directly(std::uint64_t bytes, Read&& read) const;

  const ByteSourcePtr file_;
  const std::optional<std::string> identity_;
  const std::shared_ptr<FileSystemSpeed> file_system_;
  const Way way_;
  mutable RetryOnce has_fetcher_;
  mutable std::shared_ptr<const LocalFetcher> fetcher_;  ///< made when it is needed, as is pooled_
  mutable RetryOnce was_far_;
  mutable std::optional<PooledSource> pooled_;
};

}  // namespace reshardfs
