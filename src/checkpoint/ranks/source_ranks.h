// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reshardfs/rank.h"

namespace reshardfs {

/// The ranks of a source, and the pipeline stage of each.
class SourceRanks {
 public:
  /// @param devices the number of devices of each stage, which divides all.size().
  SourceRanks(const RankRange& all, std::int64_t devices) : all_(all), devices_(devices) {}

  const RankRange& all() const noexcept { return all_; }
  /// The number of devices of each stage.
  std::int64_t devices() const noexcept { return devices_; }
  std::int64_t stages() const noexcept { return all_.size() / devices_; }

  RankRange of_stage(std::int64_t stage) const {
    return {all_.first() + stage * devices_, devices_};
  }
  /// Relative to the stage of all().first(); negative for lower ranks.
  std::int64_t stage_of(Rank rank) const noexcept {
    const std::int64_t above = rank - all_.first();
    return above / devices_ - (above % devices_ < 0 ? 1 : 0);
  }
  /// The rank's device in its stage.
  std::int64_t device_of(Rank rank) const noexcept {
    return rank - all_.first() - stage_of(rank) * devices_;
  }

 private:
  RankRange all_;
  std::int64_t devices_ = 1;
};

}  // namespace reshardfs
