// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reshardfs/virtual_file.h"

#include "base/byte_range.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// The blocks of a file that it shares with source files on the same file system (XFS, Btrfs): both
/// files refer to the same blocks on disk until one of them is written to. See
/// ioctl_ficlonerange(2).
class PageSharing {
 public:
  /// Shares what can be shared: whole blocks of the file system that lie at the same place of a
  /// block in the source, in runs of kLeast bytes and more.
  /// @param file what the written file is to be. @param fd the file, open for writing, with its
  /// size.
  /// @throws Error kUsage if the file system shares no blocks with the source; kIo, kChanged.
  PageSharing(const VirtualFile& file, int fd);

  /// Shorter runs would leave the file in many pieces.
  static constexpr std::uint64_t kLeast = 64 << 10;

  std::uint64_t shared_bytes() const noexcept { return shared_bytes_; }
  /// The parts of a range that are not shared, in order.
  std::vector<ByteRange> lacking(const ByteRange& range) const;
  /// Call this when the file is complete. @throws Error kChanged if a source has changed since.
  void check_sources() const;

 private:
  void share(const StoredRange& stored, int fd);

  std::uint64_t block_bytes_ = 0;
  std::uint64_t shared_bytes_ = 0;
  std::vector<ByteRange> shared_;  ///< in order, apart from each other
  std::vector<std::shared_ptr<const ByteSource>> sources_;
};

}  // namespace reshardfs
