// SPDX-License-Identifier: Apache-2.0
#include "report/text/strategy_listing.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "base/text/near_name.h"
#include "layout/device_grid.h"
#include "report/text/terminal.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

constexpr std::size_t kColumns = 80;

using Parts = std::vector<std::int64_t>;
using RanksByPart = std::map<Parts, std::vector<Rank>>;

RanksByPart ranks_by_part(const DeviceGrid& grid, Rank first_rank) {
  RanksByPart ranks;
  for (std::int64_t local = 0; local < grid.devices(); ++local) {
    ranks[grid.parts_of(local)].push_back(first_rank + local);
  }
  return ranks;
}

std::string part_list(const RanksByPart& ranks, const Parts& splits) {
  std::string out;
  for (const auto& [parts, holders] : ranks) {
    std::vector<std::string> texts;
    for (std::size_t d = 0; d < parts.size(); ++d) {
      texts.push_back(splits[d] == 1 ? "all" : fmt::format("{}/{}", parts[d] + 1, splits[d]));
    }
    const std::string line =
        fmt::format("  part [{}]  ranks {}", fmt::join(texts, ", "), format_rank_list(holders));
    out += wrapped(line, kColumns, 6) + "\n";
  }
  return out;
}

std::string rule(std::size_t cells, std::size_t width) {
  std::string out = "  +";
  for (std::size_t i = 0; i < cells; ++i) out += std::string(width + 2, '-') + "+";
  return out + "\n";
}

/// The grid of the first two dimensions, or nothing if it does not fit.
std::string part_grid(const RanksByPart& ranks, const Parts& splits) {
  const auto rows = splits[0];
  const auto columns = splits.size() > 1 ? splits[1] : 1;
  std::size_t width = 1;
  for (const auto& [parts, holders] : ranks) {
    width = std::max(width, format_rank_list(holders).size());
  }
  const auto count = static_cast<std::size_t>(columns);
  if (count * (width + 3) + 3 > kColumns || rows > 64) return {};
  std::string out = rule(count, width);
  for (std::int64_t r = 0; r < rows; ++r) {
    out += "  |";
    for (std::int64_t c = 0; c < columns; ++c) {
      Parts parts(splits.size(), 0);
      parts[0] = r;
      if (splits.size() > 1) parts[1] = c;
      const auto found = ranks.find(parts);
      out += fmt::format(" {:<{}} |", found == ranks.end() ? "" : format_rank_list(found->second),
                         width);
    }
    out += "\n" + rule(count, width);
  }
  return out;
}

}  // namespace

std::string device_matrix_picture(const std::vector<std::int64_t>& device_matrix, Rank first_rank) {
  std::int64_t devices = 1;
  for (const std::int64_t axis : device_matrix) devices *= axis;
  const std::int64_t across = device_matrix.empty() ? 1 : device_matrix.back();
  // Blank lines between blocks of the second axis from the right, so that three axes can be seen.
  const std::int64_t block =
      device_matrix.size() > 2 ? across * device_matrix[device_matrix.size() - 2] : devices;
  const std::size_t width = to_string(first_rank + (devices - 1)).size();
  const auto fitting = static_cast<std::int64_t>((kColumns - 2) / (width + 2));
  std::string out;
  for (std::int64_t local = 0; local < devices; ++local) {
    if (local > 0 && local % block == 0) out += "\n";
    const std::int64_t column = local % across;
    if (column % fitting == 0) out += column == 0 ? "  " : "\n    ";
    out += fmt::format("{:>{}}", first_rank + local, width + (column % fitting == 0 ? 0 : 2));
    if (column == across - 1) out += "\n";
  }
  return out;
}

std::string slice_picture(const Layout& layout, Rank first_rank) {
  const DeviceGrid grid(layout);
  const Parts splits = grid.splits();
  const RanksByPart ranks = ranks_by_part(grid, first_rank);
  if (splits.empty()) return part_list(ranks, splits);
  const bool flat = std::all_of(splits.begin() + std::min<std::ptrdiff_t>(2, std::ssize(splits)),
                                splits.end(), [](std::int64_t s) { return s == 1; });
  const std::string picture = flat ? part_grid(ranks, splits) : std::string();
  return picture.empty() ? part_list(ranks, splits) : picture;
}

namespace {

// Where the name column would be narrower, a table is no help.
constexpr std::size_t kFewestNameColumns = 20;
constexpr std::size_t kColumnGap = 2;

std::string map_text(const TensorMap& map) {
  std::string out = "[";
  for (const auto& axes : map) {
    if (out.size() > 1) out += ", ";
    if (axes.empty()) {
      out += "-1";
    } else if (axes.size() == 1) {
      out += std::to_string(axes.front());
    } else {
      out += fmt::format("[{}]", fmt::join(axes, ", "));
    }
  }
  return out + "]";
}

std::string optimizer_text(const Layout& layout) {
  if (layout.optimizer_shard_size == 0) return "-";
  return layout.optimizer_shard_size < 0 ? "all" : std::to_string(layout.optimizer_shard_size);
}

struct ListedRow {
  std::string stage;
  std::string name;
  std::vector<std::string> cells;  ///< device matrix, tensor map, optimizer shard
  const Layout* layout = nullptr;
};

std::vector<ListedRow> rows_of(const Strategy& strategy) {
  std::vector<ListedRow> rows;
  for (std::int64_t s = 0; s < strategy.stage_count(); ++s) {
    for (const auto& [name, layout] : strategy.stage(s)) {
      rows.push_back(
          {std::to_string(strategy.first_stage() + s),
           printable(name),
           {to_string(layout.device_matrix), map_text(layout.tensor_map), optimizer_text(layout)},
           &layout});
    }
  }
  return rows;
}

const ListedRow& heading() {
  static const ListedRow row{
      "STAGE", "PARAMETER", {"DEVICE MATRIX", "TENSOR MAP", "OPTIMIZER SHARD"}, nullptr};
  return row;
}

std::size_t widest(const std::vector<ListedRow>& rows, std::string ListedRow::*column) {
  std::size_t width = text_width(heading().*column);
  for (const ListedRow& row : rows) width = std::max(width, text_width(row.*column));
  return width;
}

/// Columns of all but the name.
std::size_t width_without_names(const std::vector<ListedRow>& rows) {
  std::size_t width = widest(rows, &ListedRow::stage) + kColumnGap;
  for (std::size_t c = 0; c < heading().cells.size(); ++c) {
    std::size_t cell = text_width(heading().cells[c]);
    for (const ListedRow& row : rows) cell = std::max(cell, text_width(row.cells[c]));
    width += kColumnGap + cell;
  }
  return width;
}

/// A table in which a name of more than `name_columns` has a line of its own, with the rest of its
/// row below.
std::string table_text(const std::vector<ListedRow>& rows, std::size_t columns,
                       std::size_t name_columns) {
  TextTable table(
      {heading().stage, heading().name, heading().cells[0], heading().cells[1], heading().cells[2]},
      {0, 4});
  const std::size_t stage_columns = widest(rows, &ListedRow::stage) + kColumnGap;
  for (const ListedRow& row : rows) {
    const bool fits = text_width(row.name) <= name_columns;
    if (!fits) {
      table.add_line(fmt::format("{:>{}}  {}", row.stage, stage_columns - kColumnGap,
                                 shortened(row.name, columns - stage_columns)));
    }
    table.add_row(
        {fits ? row.stage : "", fits ? row.name : "", row.cells[0], row.cells[1], row.cells[2]});
  }
  return table.str();
}

/// Where even the layouts alone are too wide for a table.
std::string blocks_text(const std::vector<ListedRow>& rows, std::size_t columns) {
  std::string out;
  for (const ListedRow& row : rows) {
    out += fmt::format("stage {}, {}\n", row.stage,
                       shortened(row.name, columns - 8 - row.stage.size()));
    out += wrapped("    " + to_string(*row.layout), columns, 4) + "\n";
  }
  return out;
}

/// Each stage's device matrices (nearly always one) with the ranks on them.
std::string device_matrices(const Strategy& strategy, std::size_t columns) {
  std::string out;
  for (std::int64_t s = 0; s < strategy.stage_count(); ++s) {
    std::set<std::vector<std::int64_t>> matrices;
    for (const auto& [name, layout] : strategy.stage(s)) matrices.insert(layout.device_matrix);
    const std::int64_t stage = strategy.first_stage() + s;
    for (const auto& matrix : matrices) {
      const std::string title =
          fmt::format("stage {}, device matrix {}, ranks:", stage, to_string(matrix));
      out += fmt::format("{}\n{}\n", wrapped(title, columns, 4),
                         device_matrix_picture(matrix, Rank(stage * strategy.devices_per_stage())));
    }
  }
  return out;
}

}  // namespace

std::string strategy_summary(const Strategy& strategy) {
  std::size_t parameters = 0;
  for (std::int64_t s = 0; s < strategy.stage_count(); ++s) parameters += strategy.stage(s).size();
  return fmt::format("{} of {}, {}",
                     counted(static_cast<std::size_t>(strategy.stage_count()), "stage"),
                     counted(static_cast<std::size_t>(strategy.devices_per_stage()), "device"),
                     counted(parameters, "layout"));
}

std::string strategy_listing(const Strategy& strategy, std::size_t columns) {
  const std::vector<ListedRow> rows = rows_of(strategy);
  const std::size_t others = width_without_names(rows);
  const bool as_table = columns == kAnyWidth || columns >= others + kFewestNameColumns;
  return strategy_summary(strategy) + "\n\n" + device_matrices(strategy, columns) +
         (as_table ? table_text(rows, columns, columns - others) : blocks_text(rows, columns));
}

std::string parameter_listing(const Strategy& strategy, const std::string& name,
                              std::size_t columns) {
  const std::vector<std::int64_t> stages = strategy.stages_of(name);
  if (stages.empty()) {
    std::set<std::string> names;
    for (std::int64_t s = 0; s < strategy.stage_count(); ++s) {
      for (const auto& item : strategy.stage(s)) names.insert(item.first);
    }
    throw Error(ErrorKind::kMissing, "the strategy does not lay it out")
        .for_parameter(name)
        .hint(did_you_mean(name, {names.begin(), names.end()}));
  }
  std::string out;
  for (const std::int64_t s : stages) {
    const std::int64_t stage = strategy.first_stage() + s;
    const Layout& layout = strategy.stage(s).at(name);
    const std::string where = fmt::format(", stage {}: {}", stage, to_string(layout));
    out += wrapped(shortened(printable(name), columns - 20) + where, columns, 4) +
           "\ndimension 0 runs down, dimension 1 across; ranks that hold each part:\n" +
           slice_picture(layout, Rank(stage * strategy.devices_per_stage()));
  }
  return out;
}

}  // namespace reshardfs
