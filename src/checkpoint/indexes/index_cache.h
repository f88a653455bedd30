// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "cache/block_cache.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/indexes/index_reader.h"

namespace reshardfs {

/// What the cache on disk has of the indexes of a set, so that no header is read. It belongs to the
/// identities of all files: where one of them is another, or has none, there is nothing. Of
/// encrypted files nothing is kept: names and shapes would be there for all to read.
class IndexCache {
 public:
  /// As many entries are kept at most: those of indexes that files share count once.
  static constexpr std::size_t kMostEntries = 500'000;

  /// Has nothing, and keeps nothing.
  IndexCache() = default;
  /// @param files with source and path.
  explicit IndexCache(const std::vector<RankFile>& files);

  /// Sets the index of each file; of those that were like others by samples, also a source that
  /// compares them before its first byte is used.
  /// @param options check_crc and examine_all: nothing may be left for later.
  /// @return false if there is nothing, or it is not right.
  bool load(std::vector<RankFile>& files, const CheckpointOptions& options) const;

  /// Keeps the indexes of all files; soon, and if there is room.
  void store(const std::vector<RankFile>& files, const Likenesses& likenesses) const;

  /// The identities of all files of the set, in their order.
  const std::optional<ObjectKey>& key() const noexcept { return key_; }

 private:
  std::shared_ptr<BlockCache> cache_;  ///< nullptr: there is none, or a file has no identity
  std::optional<ObjectKey> key_;
};

}  // namespace reshardfs
