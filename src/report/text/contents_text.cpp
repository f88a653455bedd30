// SPDX-License-Identifier: Apache-2.0
#include "report/text/contents_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

std::string full_shape_text(const FullShapes& shapes, const std::string& name) {
  const auto found = shapes.find(name);
  return found == shapes.end() ? "no layout" : to_string(found->second);
}

/// The columns behind the name.
std::vector<std::string> cells_of(const CheckpointParameter& parameter,
                                  const ContentsStyle& style) {
  std::vector<std::string> cells{std::string(mindspore_name(parameter.dtype)),
                                 to_string(parameter.shape), std::to_string(parameter.bytes),
                                 held_by(parameter)};
  if (style.full != nullptr) cells.push_back(full_shape_text(*style.full, parameter.name));
  return cells;
}

TextTable table_of(const ContentsStyle& style) {
  std::vector<std::string> heading{"PARAMETER", "DTYPE", style.shape_heading, "BYTES", "RANKS"};
  if (style.full != nullptr) heading.emplace_back("FULL SHAPE");
  return TextTable(heading, {3});
}

void add_row(TextTable& table, const std::string& name, const std::vector<std::string>& cells) {
  std::vector<std::string> row{printable(name)};
  row.insert(row.end(), cells.begin(), cells.end());
  table.add_row(std::move(row));
}

}  // namespace

std::string held_by(const CheckpointParameter& parameter) {
  std::vector<Rank> ranks = parameter.ranks;
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return format_rank_list(ranks);
}

std::string listed_parameters(const CheckpointContents& contents, const ContentsStyle& style) {
  TextTable table = table_of(style);
  for (const CheckpointParameter& parameter : contents.parameters) {
    add_row(table, parameter.name, cells_of(parameter, style));
  }
  return table.str();
}

std::string byte_items_text(const CheckpointContents& contents) {
  if (contents.byte_items.empty()) return {};
  const bool tells_kinds = !contents.byte_items.front().what.empty();
  TextTable table =
      tells_kinds ? TextTable({"NO TENSOR", "WHAT"}, {}) : TextTable({"NO TENSOR", "BYTES"}, {1});
  for (const CheckpointByteItem& item : contents.byte_items) {
    table.add_row({printable(item.name), tells_kinds ? item.what : std::to_string(item.bytes)});
  }
  return table.str();
}

void write_contents(JsonWriter& json, const CheckpointContents& contents, const FullShapes* full) {
  json.member("step", contents.step);
  json.texts("steps", contents.steps);
  json.objects("files", contents.files, [&](const CheckpointFile& file) {
    json.member("rank", file.rank);
    json.member("path", file.path.string());
    json.member("bytes", file.bytes);
    json.member("parameters", file.parameters);
  });
  json.objects("parameters", contents.parameters, [&](const CheckpointParameter& parameter) {
    json.member("name", parameter.name);
    json.member("dtype", mindspore_name(parameter.dtype));
    json.numbers("shape", parameter.shape);
    json.member("bytes", parameter.bytes);
    json.numbers("ranks", parameter.ranks);
    if (full != nullptr) {
      const auto found = full->find(parameter.name);
      found == full->end() ? json.null_member("full_shape")
                           : json.numbers("full_shape", found->second);
    }
  });
  if (!contents.refused.empty()) {
    json.objects("refused", contents.refused, [&](const CheckpointRefused& tensor) {
      json.member("name", tensor.name);
      json.member("reason", tensor.reason);
    });
  }
  if (contents.byte_items.empty()) return;
  json.objects("byte_items", contents.byte_items, [&](const CheckpointByteItem& item) {
    json.member("name", item.name);
    item.what.empty() ? json.member("bytes", item.bytes) : json.member("what", item.what);
  });
}

}  // namespace reshardfs
