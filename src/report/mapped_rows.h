// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "layout/axis_partition.h"
#include "plan/source/cell_grid.h"

namespace reshardfs {

/// Where the rows and columns of a tensor come from that a model map makes: regions that are a
/// product of stretches of dimension 0 and dimension 1 (of a tensor of one dimension: of that one
/// and a row of its own), at index 0 of all others.
struct MappedRows {
  std::vector<std::int64_t> row_lengths;
  std::vector<std::int64_t> column_lengths;
  /// Whether the last stretch of rows stands for more than it shows.
  bool shortened = false;
  /// By the numbers of the stretches; an empty holding: no file has it, or the map states it.
  std::map<std::pair<std::int64_t, std::int64_t>, Holding> holdings;
};

/// @param grid mapped, with at least one dimension and one element.
/// @param most stretches of either dimension.
MappedRows mapped_rows(const CellGridPtr& grid, std::size_t most);

}  // namespace reshardfs
