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

/// The indexes of a set in the cache on disk, so that no header need be read. They belong to the
/// identities of all files: if a file has changed or has no identity, the cache has nothing.
/// Indexes of encrypted files are not cached, because names and shapes would be readable.
class IndexCache {
 public:
  /// The maximum number of entries that are cached; an index that files share counts once.
  static constexpr std::size_t kMostEntries = 500'000;

  /// A cache that has nothing and stores nothing.
  IndexCache() = default;
  /// @param files have source and path.
  explicit IndexCache(const std::vector<RankFile>& files);

  /// Sets the index of each file. A file that resembled another according to samples also gets a
  /// source that compares them before its first byte is used.
  /// @param options with check_crc or examine_all, nothing may be left for later.
  /// @return false if the cache has nothing, or nothing valid.
  bool load(std::vector<RankFile>& files, const CheckpointOptions& options) const;

  /// Stores the indexes of all files, in the background and if there is room.
  void store(const std::vector<RankFile>& files, const Likenesses& likenesses) const;

  /// The identities of all files of the set, in their order.
  const std::optional<ObjectKey>& key() const noexcept { return key_; }

 private:
  std::shared_ptr<BlockCache> cache_;  ///< nullptr: there is none, or a file has no identity
  std::optional<ObjectKey> key_;
};

}  // namespace reshardfs
