// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "reshardfs/rank.h"

namespace reshardfs {

/// The rank at each place of a layout's device matrix. Places count from 0, row-major.
class DeviceRanks {
 public:
  /// @param ranks at least one.
  explicit DeviceRanks(const RankRange& ranks) : range_(ranks) {}
  /// @param ranks at each place; at least one, none of them twice.
  explicit DeviceRanks(const std::vector<Rank>& ranks);

  /// The same where these ranks are one of several groups of as many, one behind the other from
  /// rank 0 on: a rank of another group has the place that it has in its own. If they are no such
  /// group, no other rank has a place.
  static DeviceRanks one_group(const std::vector<Rank>& ranks);

  Rank at(std::int64_t place) const;
  /// Nothing if the rank has none.
  std::optional<std::int64_t> place_of(Rank rank) const;
  /// Whether ranks of other groups have a place, too.
  bool is_group() const noexcept { return is_group_; }

  /// Those with gaps are equal if they are copies of one object.
  bool operator==(const DeviceRanks&) const = default;

 private:
  struct Listed {
    std::vector<Rank> ranks;
    std::vector<std::int64_t> places;  ///< ascending by their rank
  };
  RankRange range_;
  bool is_group_ = false;
  std::shared_ptr<const Listed> listed_;  ///< nullptr: those of range_
};

}  // namespace reshardfs
