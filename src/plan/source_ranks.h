// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reshardfs/rank.h"
#include "reshardfs/strategy.h"

#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// The ranks of a source, and in which pipeline stage each is.
class SourceRanks {
 public:
  /// Those of the strategy: from rank 0 on; those of its stage, if it is the file of a later stage
  /// alone and the checkpoint has files of these.
  /// @throws Error kBadInput if the checkpoint has files of other ranks too. Beside those of one
  ///         stage read alone it may.
  SourceRanks(const CheckpointSet& checkpoint, const Strategy& strategy);
  /// Without a strategy: one stage of one device, the lowest rank that has a file.
  explicit SourceRanks(const CheckpointSet& checkpoint);

  const RankRange& all() const noexcept { return all_; }
  /// Devices of each stage.
  std::int64_t devices() const noexcept { return devices_; }
  std::int64_t stages() const noexcept { return all_.size() / devices_; }

  RankRange of_stage(std::int64_t stage) const {
    return {all_.first() + stage * devices_, devices_};
  }
  /// Counted from the stage of all().first() on; of a rank below that it is negative.
  std::int64_t stage_of(Rank rank) const noexcept;
  /// Which of its stage's devices it is.
  std::int64_t device_of(Rank rank) const noexcept {
    return rank - all_.first() - stage_of(rank) * devices_;
  }

 private:
  RankRange all_;
  std::int64_t devices_ = 1;
};

}  // namespace reshardfs
