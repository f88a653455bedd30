// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_writer.h"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "base/text/utf8.h"
#include "strategy/files/layout_fields.h"
#include "strategy/files/stage_prefix.h"
#include "strategy/files/strategy_file.h"

namespace reshardfs {
namespace {

/// MindSpore's training process writes the file of a stage without spaces, its merging (Python)
/// with spaces and with the operators before the layouts.
constexpr JsonStyle kOneStage{.text = JsonText::kAscii};
constexpr JsonStyle kMerged{.between = ", ", .after_key = ": ", .text = JsonText::kAscii};

void number_member(JsonWriter& json, std::string_view name, std::int64_t value) {
  json.key(name);
  json.number(value);
}

void list_member(JsonWriter& json, std::string_view name, const Numbers& list) {
  json.key(name);
  json.numbers(list);
}

/// One list as [3, 9], several as [[3, 9], [1]], none not at all.
void write_lists(JsonWriter& json, const std::string& name, const std::vector<Numbers>& lists) {
  if (lists.empty()) return;
  if (lists.size() == 1) {
    list_member(json, name, lists.front());
    return;
  }
  json.key(name);
  json.open_list();
  for (const Numbers& numbers : lists) json.numbers(numbers);
  json.close_list();
}

void write_tensor_map(JsonWriter& json, const TensorMap& map) {
  const bool flat = is_flat(map);
  json.key("tensor_map");
  json.open_list();
  for (const auto& axes : map) {
    if (flat) {
      json.number(axes.empty() ? -1 : axes.front());
    } else {
      json.numbers(dimension_numbers(axes));
    }
  }
  json.close_list();
}

void write_layout(JsonWriter& json, const Layout& layout) {
  json.open_object();
  list_member(json, "dev_matrix", layout.device_matrix.empty() ? Numbers{1} : layout.device_matrix);
  number_member(json, "field", layout.field);
  write_lists(json, "indices_offset", layout.indices_offset);
  number_member(json, "opt_weight_shard_size", layout.optimizer_shard_size);
  number_member(json, "opt_weight_shard_step", optimizer_step_to_write(layout));
  write_lists(json, "param_split_shape", layout.param_split_shape);
  write_tensor_map(json, layout.tensor_map);
  if (!layout.tensor_shape.empty()) list_member(json, "tensor_shape", layout.tensor_shape);
  json.close_object();
}

void write_name(JsonWriter& json, const std::string& name) {
  if (!is_utf8(name)) {
    throw Error(ErrorKind::kUnsupported,
                "JSON cannot hold the name '" + printable(name) + "', which is not UTF-8")
        .hint("keep this strategy in a protobuf file");
  }
  json.key(name);
}

void write_operators(JsonWriter& json, const Strategy& strategy) {
  json.key("parallel_strategy_item");
  json.open_object();
  std::set<std::string> written;  // an object has a key once: the first of equal names stays
  for (const OperatorStrategy& op : operators_to_write(strategy)) {
    if (!written.insert(op.node_name).second) continue;
    write_name(json, op.node_name);
    json.open_object();
    number_member(json, "stage", op.stage);
    json.key("parallel_strategy");
    json.open_list();
    for (const Numbers& cut : op.cuts) json.numbers(cut);
    json.close_list();
    json.close_object();
  }
  json.close_object();
}

/// @param after is called after each parameter.
template <typename After>
void write_layouts(JsonWriter& json, const JsonStyle& style, const Strategy& strategy,
                   After&& after) {
  std::unordered_map<const Layout*, std::string> texts;  // parameters share their layouts
  json.key("parallel_layout_item");
  json.open_object();
  for (std::int64_t index = 0; index < strategy.stage_count(); ++index) {
    for (const auto& [name, layout] : strategy.stage(index)) {
      write_name(json, name_to_write(strategy, index, name));
      const auto [text, is_new] = texts.try_emplace(&layout);
      if (is_new) {
        JsonWriter one(style);
        write_layout(one, mindspore_layout(layout, name));
        text->second = one.take();
      }
      json.written(text->second);
      after(json);
    }
  }
  json.close_object();
}

template <typename After>
JsonWriter write(const Strategy& strategy, After&& after) {
  const bool merged = strategy.stage_prefixed() || strategy.stage_count() > 1;
  const JsonStyle& style = merged ? kMerged : kOneStage;
  JsonWriter json(style);
  json.open_object();
  number_member(json, "current_stage", 1);
  if (merged) write_operators(json, strategy);
  write_layouts(json, style, strategy, after);
  if (!merged) write_operators(json, strategy);
  json.close_object();
  return json;
}

}  // namespace

std::string to_json(const Strategy& strategy) {
  return write(strategy, [](JsonWriter& /*json*/) {}).take();
}

std::uint64_t json_bytes(const Strategy& strategy) {
  return write(strategy, [](JsonWriter& json) { json.forget(); }).bytes();
}

}  // namespace reshardfs
