// SPDX-License-Identifier: Apache-2.0
#include "report/text/strategy_listing.h"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/near_name.h"
#include "report/text/strategy_picture.h"
#include "report/text/terminal.h"
#include "report/text/text.h"

namespace reshardfs {
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
