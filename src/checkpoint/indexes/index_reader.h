// SPDX-License-Identifier: Apache-2.0
/// Reads the indexes of many files, most of which are alike.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process/retry_once.h"
#include "checkpoint/checkpoint_set.h"
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

/// Comparing one parameter takes about a microsecond, or a millisecond on slow storage.
inline constexpr std::size_t kCheapParameters = 200'000;

/// For each file of a set, the file whose index it shares because samples showed them to be alike.
using Likenesses = std::vector<std::optional<std::size_t>>;

/// Sets the index of each file, in parallel.
///
/// Files of the same size are often alike, such as the ranks of a pipeline stage. One of them is
/// read. In the others, everything except tensor contents is compared with it, and files that are
/// equal share its index. If that would still take long, only a part is compared, a different one
/// in each file, so that a difference between ranks shows in some of them; then they are compared
/// completely. The rest is compared at the first read of each file, which fails with kBadInput if
/// there is a difference.
/// @param files have source and path; source may be replaced by one that compares.
/// @param options with check_crc or examine_all, nothing is left for later.
/// @param cheap_parameters this many parameters, counted over all files, are always compared.
/// @return the files for which a part was left for later.
/// @throws errors of reading an index.
Likenesses read_indexes(std::vector<RankFile>& files, const CheckpointOptions& options,
                        std::size_t cheap_parameters = kCheapParameters);

}  // namespace reshardfs
