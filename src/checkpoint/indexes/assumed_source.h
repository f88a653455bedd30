// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/process/retry_once.h"
#include "checkpoint/ranks/rank_file.h"
#include "format/index/index_frame.h"
#include "format/input_format.h"

namespace reshardfs {

/// The frame of a file that others are assumed to resemble. It is read when it is first needed. Any
/// number of threads may use it.
class LeaderFrame {
 public:
  /// @param frame nullptr: read it from the file.
  LeaderFrame(const RankFile& file, std::shared_ptr<const IndexFrame> frame);

  /// @throws errors of the file; Error kBadInput if it has no frame.
  const IndexFrame& get() const;
  const std::string& path() const noexcept { return path_; }

 private:
  ByteSourcePtr file_;
  std::shared_ptr<const FileIndex> index_;
  std::string path_;
  mutable RetryOnce read_;
  mutable std::shared_ptr<const IndexFrame> frame_;
};

using LeaderFramePtr = std::shared_ptr<const LeaderFrame>;

/// A file that is assumed to resemble another, and is compared with it before its first byte is
/// used.
ByteSourcePtr assume_like(const LeaderFramePtr& leader, ByteSourcePtr file,
                          const InputFormat& format);

}  // namespace reshardfs
