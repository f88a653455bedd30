// SPDX-License-Identifier: Apache-2.0
/// Files are read by several workers in blocks, and each is hashed while it goes by.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/virtual_file.h"

#include "base/byte_range.h"
#include "base/process/interrupted.h"
#include "base/process/progress.h"
#include "export/content_hash.h"

namespace reshardfs {

/// One file. All calls for it but restore(), write() and written() come from one thread at a time.
class BlockJob {
 public:
  BlockJob() = default;
  BlockJob(const BlockJob&) = delete;
  BlockJob& operator=(const BlockJob&) = delete;
  virtual ~BlockJob() = default;

  virtual const VirtualFile& file() const = 0;
  /// What the progress display calls it.
  virtual const std::string& name() const = 0;
  /// The size of its blocks; 0: as the engine's options say.
  virtual std::size_t block_bytes() const { return 0; }
  /// Whether a block may be written in pieces, each right after it was read: it is in the
  /// processor's caches then.
  virtual bool takes_pieces() const { return false; }
  /// The sums that finish() is to get.
  virtual SumKinds sums() const = 0;
  /// Before the first block.
  virtual void begin() {}
  /// Whether an earlier process has written the block. If so, reads its bytes into `out`, and
  /// write() is not called for the block. Several threads may call this at once.
  virtual bool restore(std::uint64_t /*offset*/, std::span<std::byte> /*out*/) { return false; }
  /// The parts of a range of the file that must be read and written, in order. Where it is not all,
  /// the file has no sum. Several threads may call this at once.
  virtual std::vector<ByteRange> lacking(const ByteRange& range) const { return {range}; }
  /// Each block or piece once. Blocks come in any order, from several threads at once; the pieces
  /// of a block come in order.
  virtual void write(std::uint64_t /*offset*/, std::span<const std::byte> /*bytes*/) {}
  /// After all of a block was written, from the same thread.
  virtual void written(std::uint64_t /*offset*/, std::span<const std::byte> /*block*/) {}
  /// Whether finish() may be called while other jobs go on, so that their files are begun though it
  /// may fail.
  virtual bool finishes_beside() const { return false; }
  /// After all blocks have been written.
  /// @param sums none if lacking() has left out any byte.
  virtual void finish(const ContentSums& sums) = 0;
};

struct BlockEngineOptions {
  std::size_t workers = 1;
  std::size_t block_bytes = std::size_t{4} << 20U;
  /// Looked at between two blocks; nullptr: never stopped.
  const std::atomic<bool>* stop = nullptr;
  Progress* progress = nullptr;
};

/// Does all jobs. A worker begins the next file if there is one, else it helps with the one that
/// has most blocks left, so that one large file is as quick as many. Memory: one block a worker.
/// @throws Error of a job, after every worker has stopped; Interrupted. The jobs that were not
///         finished are left as they are.
void run_blocks(const std::vector<std::unique_ptr<BlockJob>>& jobs,
                const BlockEngineOptions& options);

/// `memory` bytes shared among workers: not more of them than can have a block, and blocks not
/// larger than is of use.
BlockEngineOptions block_engine_options(std::size_t workers, std::uint64_t memory);

}  // namespace reshardfs
