// SPDX-License-Identifier: Apache-2.0
#include "report/text/contents_text.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "base/text/name_groups.h"
#include "base/text/numbers.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

std::vector<Rank> each_once(std::vector<Rank> ranks) {
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string full_shape_text(const FullShapes& shapes, const std::string& name) {
  const auto found = shapes.find(name);
  return found == shapes.end() ? "no layout" : to_string(found->second);
}

/// Columns that lines of both lists have behind the name, from the type on.
std::vector<std::string> cells_of(const CheckpointParameter& parameter,
                                  const ContentsStyle& style) {
  std::vector<std::string> cells{std::string(mindspore_name(parameter.dtype)),
                                 to_string(parameter.shape), std::to_string(parameter.bytes),
                                 format_rank_list(each_once(parameter.ranks))};
  if (style.full != nullptr) cells.push_back(full_shape_text(*style.full, parameter.name));
  return cells;
}

/// @param bytes what the column is called.
TextTable table_of(const ContentsStyle& style, const char* bytes) {
  std::vector<std::string> heading{"PARAMETER", "DTYPE", style.shape_heading, bytes, "RANKS"};
  if (style.full != nullptr) heading.emplace_back("FULL SHAPE");
  return TextTable(heading, {3});
}

void add_row(TextTable& table, const std::string& name, const std::vector<std::string>& cells) {
  std::vector<std::string> row{printable(name)};
  row.insert(row.end(), cells.begin(), cells.end());
  table.add_row(std::move(row));
}

/// The name with one sign for each run of digits.
std::string without_numbers(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (!is_digit(c)) {
      text += c;
    } else if (text.empty() || text.back() != '\0') {
      text += '\0';
    }
  }
  return text;
}

}  // namespace

std::string listed_parameters(const CheckpointContents& contents, const ContentsStyle& style) {
  TextTable table = table_of(style, "BYTES");
  for (const CheckpointParameter& parameter : contents.parameters) {
    add_row(table, parameter.name, cells_of(parameter, style));
  }
  return table.str();
}

std::string grouped_parameters(const CheckpointContents& contents, const ContentsStyle& style) {
  struct Group {
    std::vector<std::string> names;
    std::vector<std::string> cells;
  };
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::vector<std::string>>, std::size_t> known;
  for (const CheckpointParameter& parameter : contents.parameters) {
    std::vector<std::string> cells = cells_of(parameter, style);
    const auto [found, is_new] =
        known.try_emplace({without_numbers(parameter.name), cells}, groups.size());
    if (is_new) groups.push_back({{}, std::move(cells)});
    groups[found->second].names.push_back(parameter.name);
  }
  TextTable table = table_of(style, "BYTES EACH");
  for (const Group& group : groups) {
    for (const std::string& name : group_names(group.names)) add_row(table, name, group.cells);
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
