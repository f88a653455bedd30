// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "reshardfs/rank.h"

namespace reshardfs {

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
