// SPDX-License-Identifier: Apache-2.0
#include "report/text/why_text.h"

#include <cstddef>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "plan/reading/byte_ranges.h"
#include "report/text/terminal.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostRanges = 16;

std::string place_text(const modelmap::MapPlace& place) {
  const std::string file = place.file ? *place.file : std::string();
  return fmt::format("{}:{}", printable(std::filesystem::path(file).filename().string()),
                     place.line);
}

std::string range_text(const SourceRange& range) {
  std::string text =
      fmt::format("offset {}, {}", range.first.offset(), counted(range.first.length(), "byte"));
  if (range.count > 1) text += fmt::format(", {} times every {}", range.count, range.stride);
  return text;
}

}  // namespace

std::string values_text(const std::vector<modelmap::VariableValue>& values) {
  if (values.empty()) return {};
  TextTable table({"VARIABLE", "VALUE", "FROM"}, {1});
  for (const modelmap::VariableValue& value : values) {
    table.add_row({printable(value.name), std::to_string(*value.value), value.value.origin()});
  }
  return table.str();
}

std::string why_line(const std::vector<modelmap::VariableValue>& values, const CellGridPtr& grid) {
  constexpr std::size_t kMostInLine = 4;
  std::vector<std::string> parts;
  for (const modelmap::VariableValue& value : values) {
    parts.push_back(
        fmt::format("{} = {} ({})", printable(value.name), *value.value, value.value.origin()));
  }
  if (grid) {
    const SourceRanges ranges = source_ranges(ShownTensor(grid), kMostInLine);
    std::vector<std::string> texts;
    for (const SourceRange& range : ranges.ranges) {
      texts.push_back(printable(range.file->path.string()) + " " + range_text(range));
    }
    if (!ranges.complete) texts.emplace_back("...");
    if (!texts.empty()) parts.push_back(fmt::format("bytes: {}", fmt::join(texts, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string layout_text(const SourceTable& table, const std::string& name) {
  const SourceParameter* parameter = table.find(name);
  const std::string start = printable(name) + ": ";
  if (parameter == nullptr) return start + "not in the source\n";
  if (parameter->grid && parameter->grid->boxes() != nullptr) {
    return start + boxes_text(*parameter->grid) + " (the checkpoint records them)\n";
  }
  if (!table.states_layouts()) {
    const CheckpointSet& set = table.checkpoint();
    return start +
           (set.files().front().rank == set.files().back().rank
                ? "whole in its file\n"
                : "as each rank's file has it: a copy of the whole, or a slice of it, which "
                  "--src-strategy tells\n");
  }
  if (parameter->layout == nullptr) return start + "no layout is stated\n";
  std::vector<std::string> axes;
  for (const auto& dimension : parameter->layout->tensor_map) {
    axes.push_back(dimension.size() == 1 ? std::to_string(dimension[0])
                   : dimension.empty()   ? "-1"
                                         : fmt::format("[{}]", fmt::join(dimension, ", ")));
  }
  return fmt::format(
      "{}device matrix [{}], tensor map [{}] ({})\n", start,
      fmt::join(parameter->layout->device_matrix, ", "), fmt::join(axes, ", "),
      table.strategy() != nullptr ? "the source strategy" : "the checkpoint records it");
}

std::string explanation_text(const ModelMaps::Explanation& explanation) {
  return fmt::format("{}: {} {}, of {}\n{}", printable(explanation.target),
                     explanation.is_alias ? "alias of" : "rule of", place_text(explanation.place),
                     name_list(explanation.sources, 8), values_text(explanation.values));
}

std::string ranges_text(const CellGridPtr& grid) {
  const SourceRanges ranges = source_ranges(ShownTensor(grid), kMostRanges);
  if (ranges.ranges.empty() && !ranges.complete) return "computed when it is read\n";
  TextTable table({"READ FROM", "BYTES"});
  for (const SourceRange& range : ranges.ranges) {
    table.add_row({printable(range.file->path.string()), range_text(range)});
  }
  std::string text = table.str();
  if (!ranges.complete) text += "...\n";
  return text;
}

}  // namespace reshardfs
