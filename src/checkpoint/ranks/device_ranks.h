// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

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

/// The rank at each place of a layout's device matrix. Places are numbered from 0, row-major.
class DeviceRanks {
 public:
  /// @param ranks at least one.
  explicit DeviceRanks(const RankRange& ranks) : range_(ranks) {}
  /// @param ranks the rank at each place; at least one, without duplicates.
  explicit DeviceRanks(const std::vector<Rank>& ranks);

  /// The same if these ranks are one of several consecutive groups of equal size from rank 0 on: a
  /// rank in another group has its place in that group. If they are not such a group, no other rank
  /// has a place.
  static DeviceRanks one_group(const std::vector<Rank>& ranks);

  Rank at(std::int64_t place) const;
  /// nullopt if the rank has none.
  std::optional<std::int64_t> place_of(Rank rank) const;
  /// Whether ranks of other groups have a place, too.
  bool is_group() const noexcept { return is_group_; }

  /// Ranks that are not a range compare equal only if they are copies of one object.
  bool operator==(const DeviceRanks&) const = default;

 private:
  struct Listed {
    std::vector<Rank> ranks;
    std::vector<std::int64_t> places;  ///< ascending by rank
  };
  RankRange range_;
  bool is_group_ = false;
  std::shared_ptr<const Listed> listed_;  ///< nullptr: the ranks are range_
};

}  // namespace reshardfs
