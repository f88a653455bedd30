// SPDX-License-Identifier: Apache-2.0
#include "report/slice_map.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/byte_range.h"
#include "layout/axis_partition.h"
#include "layout/slicing.h"
#include "plan/source/cell_grid.h"
#include "plan/target/shown_tensor.h"

namespace reshardfs {
namespace {

/// Neighbours with one part of a side, as one.
std::vector<Stretch> joined(const std::vector<Stretch>& list, std::int64_t Stretch::*part) {
  std::vector<Stretch> out;
  for (const Stretch& stretch : list) {
    if (!out.empty() && out.back().*part == stretch.*part) {
      out.back().end = stretch.end;
    } else {
      out.push_back(stretch);
    }
  }
  return out;
}

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

/// More are not looked at: rows that come from many places are not what a picture can show.
constexpr std::int64_t kMostRows = 65'536;

/// From which column on what holds them.
struct ColumnStretch {
  std::int64_t column = 0;
  Holding holding;

  bool operator==(const ColumnStretch&) const = default;
};
using StretchRow = std::vector<ColumnStretch>;

class Rows {
 public:
  Rows(const CellGridPtr& grid, std::size_t most) : view_(grid), most_(most) {
    const Shape& full = grid->full_shape();
    const bool has_rows = full.size() > 1;
    rows_ = has_rows ? full[0] : 1;
    columns_ = has_rows ? full[1] : full[0];
    for (std::size_t d = 2; d < full.size(); ++d) inner_ *= full[d];
    element_ = element_size(grid->dtype());
  }

  MappedRows find() {
    MappedRows regions;
    std::vector<StretchRow> kinds;
    const std::int64_t end = std::min(rows_, kMostRows);
    std::int64_t row = 0;
    for (; row < end; ++row) {
      StretchRow pieces = pieces_of(row);
      if (!kinds.empty() && kinds.back() == pieces) {
        ++regions.row_lengths.back();
        continue;
      }
      if (kinds.size() == most_) break;
      kinds.push_back(std::move(pieces));
      regions.row_lengths.push_back(1);
    }
    regions.shortened = row < rows_;
    regions.row_lengths.back() += rows_ - row;
    std::set<std::int64_t> begins;
    for (const StretchRow& kind : kinds) {
      for (const ColumnStretch& piece : kind) begins.insert(piece.column);
    }
    begins.insert(columns_);
    for (auto at = begins.begin(); std::next(at) != begins.end(); ++at) {
      regions.column_lengths.push_back(*std::next(at) - *at);
    }
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      std::int64_t column = 0;
      for (std::size_t k = 0; k < regions.column_lengths.size(); ++k) {
        const auto behind = std::upper_bound(
            kinds[i].begin(), kinds[i].end(), column,
            [](std::int64_t at, const ColumnStretch& piece) { return at < piece.column; });
        regions.holdings[{static_cast<std::int64_t>(i), static_cast<std::int64_t>(k)}] =
            std::prev(behind)->holding;
        column += regions.column_lengths[k];
      }
    }
    return regions;
  }

 private:
  StretchRow pieces_of(std::int64_t row) const {
    const auto row_bytes = static_cast<std::uint64_t>(columns_ * inner_ * element_);
    const std::uint64_t begin = static_cast<std::uint64_t>(row) * row_bytes;
    StretchRow pieces;
    view_.for_each_run({begin, row_bytes}, [&](const StridedRun& run) {
      // The first column whose index 0 of all other dimensions is in the run.
      const auto first = static_cast<std::int64_t>(run.destination_offset - begin) / element_;
      const std::int64_t column = (first + inner_ - 1) / inner_;
      const auto last = first + static_cast<std::int64_t>(run.length * run.count) / element_;
      if (column * inner_ >= last || pieces.size() == most_) return;
      if (!pieces.empty() && pieces.back().holding == run.holding) return;
      pieces.push_back({column, run.holding});
    });
    std::sort(pieces.begin(), pieces.end(),
              [](const ColumnStretch& a, const ColumnStretch& b) { return a.column < b.column; });
    return pieces;
  }

  ShownTensor view_;
  std::size_t most_;
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 1;
  std::int64_t inner_ = 1;
  std::int64_t element_ = 1;
};

/// @param grid mapped, with at least one dimension and one element.
/// @param most stretches of either dimension.
MappedRows mapped_rows(const CellGridPtr& grid, std::size_t most) {
  return Rows(grid, most).find();
}

using Parts = std::vector<std::int64_t>;

constexpr std::size_t kMostRegions = 2048;

/// How some destination ranks cut a parameter, and which part each has.
struct Cut {
  const Slicing* slicing = nullptr;  ///< nullptr: every rank has it whole
  std::vector<std::pair<Rank, Parts>> ranks;
};

std::vector<Cut> cuts_of(const TargetTable& target, const TargetParameter& parameter,
                         const std::vector<Rank>& ranks) {
  std::vector<Cut> cuts;
  const std::size_t dimensions = parameter.grid->full_shape().size();
  for (const Rank rank : ranks) {
    if (!target.has(parameter, rank)) continue;
    const bool cut = parameter.treatment == Treatment::kReshard;
    const Slicing* slicing = cut ? parameter.cuts().at(target.stage_of(rank)).get() : nullptr;
    auto found = std::find_if(cuts.begin(), cuts.end(),
                              [&](const Cut& known) { return known.slicing == slicing; });
    if (found == cuts.end()) found = cuts.insert(found, Cut{slicing, {}});
    found->ranks.emplace_back(
        rank, cut ? slicing->parts_of(target.device_of(rank)) : Parts(dimensions, 0));
  }
  return cuts;
}

AxisPartition partition(const Cut& cut, const CellGrid& grid, std::size_t dimension) {
  if (cut.slicing != nullptr) return cut.slicing->partitions()[dimension];
  return AxisPartition::even(grid.full_shape()[dimension], 1);
}

/// Which of a cut's dimensions are drawn: the two that are cut into most parts, in their order.
void choose_dimensions(SliceMap& map) {
  const std::size_t count = map.source_parts.size();
  std::vector<std::size_t> order(count);
  for (std::size_t d = 0; d < count; ++d) order[d] = d;
  const auto parts = [&](std::size_t d) {
    return std::max(map.source_parts[d], map.destination_parts[d]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return parts(a) > parts(b); });
  const std::size_t shown = std::min<std::size_t>(count, 2);
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown));
  if (count > 1) map.row_dimension = order[0];
  if (count > 0) map.column_dimension = order[shown - 1];
  for (std::size_t i = shown; i < count; ++i) {
    if (parts(order[i]) > 1) map.hidden.push_back(order[i]);
  }
  std::sort(map.hidden.begin(), map.hidden.end());
}

void shorten(SliceMap& map) {
  while (map.rows.size() * map.columns.size() > kMostRegions) {
    std::vector<Stretch>& longer = map.rows.size() > map.columns.size() ? map.rows : map.columns;
    longer.resize(longer.size() / 2);
    map.shortened = true;
  }
}

/// The ranks of a cut by the parts that are drawn; those that have index 0 of the other dimensions.
void add_ranks(const Cut& cut, const Parts& destination_at, SliceMap& map) {
  const auto part = [](const Parts& parts, const std::optional<std::size_t>& d) {
    return d ? parts[*d] : 0;
  };
  for (const auto& [rank, parts] : cut.ranks) {
    bool at_index_0 = true;
    for (std::size_t d = 0; d < parts.size(); ++d) {
      const bool is_drawn = map.row_dimension == d || map.column_dimension == d;
      at_index_0 = at_index_0 && (is_drawn || parts[d] == destination_at[d]);
    }
    if (!at_index_0) continue;
    map.ranks[{part(parts, map.row_dimension), part(parts, map.column_dimension)}].push_back(rank);
  }
}

/// Of a tensor that a model map makes: its first two dimensions.
SliceMap made_map_of(const Cut& cut, const CellGridPtr& grid) {
  SliceMap map;
  map.made_by_map = true;
  const Shape& full = grid->full_shape();
  Parts destination_at(full.size(), 0);
  for (std::size_t d = 0; d < full.size(); ++d) {
    const AxisPartition destination = partition(cut, *grid, d);
    map.source_parts.push_back(1);
    map.destination_parts.push_back(destination.parts());
    destination_at[d] = destination.locate(0).part;
    if (d > 1 && destination.parts() > 1) map.hidden.push_back(d);
  }
  if (full.size() > 1) map.row_dimension = 0;
  if (!full.empty()) map.column_dimension = full.size() > 1 ? 1 : 0;
  map.rows = {{0, 1, 0, 0}};
  map.columns = {{0, 1, 0, 0}};
  if (full.empty()) {
    const ShownTensor view(grid);
    view.for_each_run({0, view.size()}, [&](const StridedRun& run) {
      map.holdings[{0, 0}] = run.holding;
    });
  } else {
    MappedRows regions = mapped_rows(grid, kMostRegions / 8);
    const auto along = [&](std::size_t d, const Parts& lengths) {
      return stretches(partition(cut, *grid, d), AxisPartition::of_lengths(lengths));
    };
    if (map.row_dimension) map.rows = along(0, regions.row_lengths);
    map.columns = along(*map.column_dimension, regions.column_lengths);
    map.holdings = std::move(regions.holdings);
    map.shortened = regions.shortened;
  }
  shorten(map);
  add_ranks(cut, destination_at, map);
  return map;
}

SliceMap map_of(const Cut& cut, const CellGrid& grid) {
  SliceMap map;
  const std::size_t count = grid.full_shape().size();
  // Of the dimensions that are not drawn: the parts in which index 0 lies.
  Parts source_at(count, 0);
  Parts destination_at(count, 0);
  for (std::size_t d = 0; d < count; ++d) {
    const AxisPartition destination = partition(cut, grid, d);
    map.source_parts.push_back(grid.partitions()[d].parts());
    map.destination_parts.push_back(destination.parts());
    source_at[d] = grid.partitions()[d].locate(0).part;
    destination_at[d] = destination.locate(0).part;
  }
  choose_dimensions(map);
  const auto along = [&](const std::optional<std::size_t>& d) {
    return d ? stretches(partition(cut, grid, *d), grid.partitions()[*d])
             : std::vector<Stretch>{{0, 1, 0, 0}};
  };
  map.rows = along(map.row_dimension);
  map.columns = along(map.column_dimension);
  shorten(map);
  add_ranks(cut, destination_at, map);
  for (const Stretch& row : map.rows) {
    for (const Stretch& column : map.columns) {
      if (map.row_dimension) source_at[*map.row_dimension] = row.source_part;
      if (map.column_dimension) source_at[*map.column_dimension] = column.source_part;
      std::int64_t cell = 0;
      for (std::size_t d = 0; d < count; ++d) cell = cell * map.source_parts[d] + source_at[d];
      map.holdings[{row.source_part, column.source_part}] =
          grid.cell(static_cast<std::size_t>(cell));
    }
  }
  return map;
}

/// Slices that are copied as they are have no full tensor: one after the other they stand for it.
SliceMap raw_map(const TargetTable& target, const TargetParameter& parameter,
                 const std::vector<Rank>& ranks) {
  SliceMap map;
  map.rows = {{0, 1, 0, 0}};
  for (const Rank rank : ranks) {
    if (map.columns.size() == kMostRegions) {
      map.shortened = true;
      break;
    }
    if (!target.has(parameter, rank)) continue;
    const auto at = static_cast<std::int64_t>(map.columns.size());
    map.columns.push_back({at, at + 1, at, at});
    map.ranks[{0, at}] = {rank};
    map.holdings[{0, at}] = target.view(parameter, rank).grid().cell(0);
  }
  return map;
}

}  // namespace

std::string cut_text(const std::vector<std::int64_t>& parts) {
  const bool whole = std::all_of(parts.begin(), parts.end(), [](auto n) { return n == 1; });
  return whole ? "whole" : fmt::format("cut {}", fmt::join(parts, " \u00d7 "));
}

std::vector<Stretch> stretches(const AxisPartition& destination, const AxisPartition& source) {
  std::vector<Stretch> list;
  for (std::int64_t at = 0; at < destination.size();) {
    const AxisInterval to = destination.locate(at);
    const AxisInterval from = source.locate(at);
    const std::int64_t end = std::min(to.end, from.end);
    list.push_back({at, end, to.part, from.part});
    at = end;
  }
  return list;
}

std::vector<SliceMap> slice_maps(const TargetTable& target, const TargetParameter& parameter,
                                 const std::vector<Rank>& ranks) {
  if (parameter.treatment == Treatment::kRaw) return {raw_map(target, parameter, ranks)};
  // Boxes that form no grid have no rows and columns.
  if (parameter.grid->boxes() != nullptr) return {};
  const Shape& full = parameter.grid->full_shape();
  if (std::find(full.begin(), full.end(), 0) != full.end()) return {};
  std::vector<SliceMap> maps;
  for (const Cut& cut : cuts_of(target, parameter, ranks)) {
    const bool made = parameter.grid->mapped() != nullptr;
    maps.push_back(made ? made_map_of(cut, parameter.grid) : map_of(cut, *parameter.grid));
  }
  return maps;
}

std::vector<Stretch> destination_stretches(const std::vector<Stretch>& list) {
  return joined(list, &Stretch::destination_part);
}

SliceMap source_side(SliceMap map) {
  map.rows = joined(map.rows, &Stretch::source_part);
  map.columns = joined(map.columns, &Stretch::source_part);
  map.ranks.clear();
  return map;
}

}  // namespace reshardfs
