// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <xxhash.h>

#include "cache/block_cache.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/holders.h"

namespace reshardfs {

/// A checksum of which bytes of a set's files are compared with each other, in order.
class ComparisonList {
 public:
  explicit ComparisonList(const CheckpointSet& set);

  /// Adds a comparison of the samples at `offset` of both contents.
  void add_sample(const Holding& one, const Holding& other, std::uint64_t offset);
  void add_whole(const Holding& one, const Holding& other);

  XXH128_hash_t sum() const;

 private:
  void add(std::uint64_t number);
  void add(const Holding& holding);

  struct FreeState {
    void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
  };
  const CheckpointSet& set_;
  std::unique_ptr<XXH3_state_t, FreeState> state_;
};

/// The entry of the cache on disk that says that all comparisons of a list were equal.
class ReplicaCache {
 public:
  /// @param set the set's identity.
  ReplicaCache(const ObjectKey& set, const ComparisonList& list);

  bool has() const;
  void keep() const;

 private:
  std::shared_ptr<BlockCache> cache_;
  ObjectKey key_;
};

}  // namespace reshardfs
