// SPDX-License-Identifier: Apache-2.0
/// What a picture of a parameter shows: its full tensor, or two dimensions of it, cut into regions
/// that one source slice serves to one destination slice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/target/target_table.h"

namespace reshardfs {

/// "cut 4 x 2" from the parts of each dimension, or "whole".
std::string cut_text(const std::vector<std::int64_t>& parts);

/// Rows of one dimension that lie in one part of the destination and in one of the source.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t destination_part = 0;
  std::int64_t source_part = 0;
};

/// All stretches of a dimension, in order. Both cuts are of the same dimension.
std::vector<Stretch> stretches(const AxisPartition& destination, const AxisPartition& source);

/// Those of the destination alone.
std::vector<Stretch> destination_stretches(const std::vector<Stretch>& list);

struct SliceMap {
  /// The dimensions that run down and across; nothing: there is no such dimension, and one stretch
  /// of length 1 stands for it.
  std::optional<std::size_t> row_dimension;
  std::optional<std::size_t> column_dimension;
  std::vector<Stretch> rows;
  std::vector<Stretch> columns;
  /// Of a tensor that a model map makes of others: stretches of the source are those of one place
  /// in one tensor of it.
  bool made_by_map = false;
  /// Whether there are more of either: only so many are kept that a picture stays small.
  bool shortened = false;
  /// Cut dimensions that are not shown: what is shown is their index 0.
  std::vector<std::size_t> hidden;
  /// Parts that each side cuts each dimension into.
  std::vector<std::int64_t> source_parts;
  std::vector<std::int64_t> destination_parts;
  /// By the parts of the row and the column: the destination ranks that have the slice.
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Rank>> ranks;
  /// The same of the source, where it is held (an empty holding: nowhere).
  std::map<std::pair<std::int64_t, std::int64_t>, Holding> holdings;
};

/// One map for each way in which the shown destination ranks cut the parameter: more than one if
/// pipeline stages differ. None if none of them has it, or it has no elements.
/// @param ranks destination ranks.
std::vector<SliceMap> slice_maps(const TargetTable& target, const TargetParameter& parameter,
                                 const std::vector<Rank>& ranks);

/// Without what the destination cuts.
SliceMap source_side(SliceMap map);

}  // namespace reshardfs
