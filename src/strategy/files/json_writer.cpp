// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "strategy/files/layout_fields.h"
#include "strategy/files/stage_prefix.h"

namespace reshardfs {
namespace {

/// MindSpore's training process writes the file of a stage without spaces, its merging (Python)
/// with spaces and with the operators before the layouts.
struct Style {
  std::string_view between;
  std::string_view after_key;
};
constexpr Style kOneStage{",", ":"};
constexpr Style kMerged{", ", ": "};

/// Writes objects and lists; puts the separators where they belong.
class JsonText {
 public:
  explicit JsonText(const Style& style) : style_(style) {}

  void open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    first_ = false;
  }
  void key(const std::string& name) {
    separate();
    text_ += nlohmann::json(name).dump(-1, ' ', true);
    text_ += style_.after_key;
    first_ = true;  // no separator before the value
  }
  void number(std::int64_t value) {
    separate();
    text_ += std::to_string(value);
  }
  void numbers(const Numbers& list) {
    open('[');
    for (const std::int64_t value : list) number(value);
    close(']');
  }

  void number_member(const std::string& name, std::int64_t value) {
    key(name);
    number(value);
  }
  void list_member(const std::string& name, const Numbers& list) {
    key(name);
    numbers(list);
  }

  std::string take() { return std::move(text_); }

 private:
  void separate() {
    if (!first_) text_ += style_.between;
    first_ = false;
  }

  Style style_;
  std::string text_;
  bool first_ = true;
};

/// One list as [3, 9], several as [[3, 9], [1]], none not at all.
void write_lists(JsonText& json, const std::string& name, const std::vector<Numbers>& lists) {
  if (lists.empty()) return;
  if (lists.size() == 1) {
    json.list_member(name, lists.front());
    return;
  }
  json.key(name);
  json.open('[');
  for (const Numbers& numbers : lists) json.numbers(numbers);
  json.close(']');
}

void write_tensor_map(JsonText& json, const TensorMap& map) {
  const bool flat = is_flat(map);
  json.key("tensor_map");
  json.open('[');
  for (const auto& axes : map) {
    if (flat) {
      json.number(axes.empty() ? -1 : axes.front());
    } else {
      json.numbers(dimension_numbers(axes));
    }
  }
  json.close(']');
}

void write_layout(JsonText& json, const Layout& layout) {
  json.open('{');
  json.list_member("dev_matrix", layout.device_matrix.empty() ? Numbers{1} : layout.device_matrix);
  json.number_member("field", layout.field);
  write_lists(json, "indices_offset", layout.indices_offset);
  json.number_member("opt_weight_shard_size", layout.optimizer_shard_size);
  json.number_member("opt_weight_shard_step", optimizer_step_to_write(layout));
  write_lists(json, "param_split_shape", layout.param_split_shape);
  write_tensor_map(json, layout.tensor_map);
  if (!layout.tensor_shape.empty()) json.list_member("tensor_shape", layout.tensor_shape);
  json.close('}');
}

/// nlohmann-json throws on text that is not UTF-8.
void write_name(JsonText& json, const std::string& name) {
  try {
    json.key(name);
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::kUnsupported,
                "JSON cannot hold the name '" + printable(name) + "', which is not UTF-8")
        .hint("keep this strategy in a protobuf file");
  }
}

void write_operators(JsonText& json, const Strategy& strategy) {
  json.key("parallel_strategy_item");
  json.open('{');
  std::set<std::string> written;  // an object has a key once: the first of equal names stays
  for (const OperatorStrategy& op : operators_to_write(strategy)) {
    if (!written.insert(op.node_name).second) continue;
    write_name(json, op.node_name);
    json.open('{');
    json.number_member("stage", op.stage);
    json.key("parallel_strategy");
    json.open('[');
    for (const Numbers& cut : op.cuts) json.numbers(cut);
    json.close(']');
    json.close('}');
  }
  json.close('}');
}

void write_layouts(JsonText& json, const Strategy& strategy) {
  json.key("parallel_layout_item");
  json.open('{');
  for (std::int64_t index = 0; index < strategy.stage_count(); ++index) {
    for (const auto& [name, layout] : strategy.stage(index)) {
      write_name(json, name_to_write(strategy, index, name));
      write_layout(json, mindspore_layout(layout, name));
    }
  }
  json.close('}');
}

}  // namespace

std::string to_json(const Strategy& strategy) {
  const bool merged = strategy.stage_prefixed() || strategy.stage_count() > 1;
  JsonText json(merged ? kMerged : kOneStage);
  json.open('{');
  json.number_member("current_stage", 1);
  if (merged) write_operators(json, strategy);
  write_layouts(json, strategy);
  if (!merged) write_operators(json, strategy);
  json.close('}');
  return json.take();
}

}  // namespace reshardfs
