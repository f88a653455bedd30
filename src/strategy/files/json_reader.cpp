// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "strategy/files/layout_fields.h"
#include "strategy/files/raw_strategy.h"

namespace reshardfs {
namespace {

/// Values nest item > list > list > number; a little more is let through to be named in an error.
/// The others are far above any, and keep a hostile item from filling the memory.
constexpr JsonLimits kItemLimits{
    .values = 1'000'000, .text_bytes = 256 << 20, .keys = 64, .depth = 8};

std::string type_name(JsonKind kind) {
  if (kind == JsonKind::kInteger) return "an integer";
  if (kind == JsonKind::kOtherNumber) return "a number that is not a 64-bit integer";
  return name_of(kind);
}

Error wrong_type(const std::string& key, const JsonValue& found, const std::string& expected) {
  return {ErrorKind::kBadInput,
          "key '" + key + "' has " + type_name(found.kind()) + ", expected " + expected};
}

/// One entry of parallel_layout_item or parallel_strategy_item.
class Item {
 public:
  explicit Item(const JsonValue& value) : value_(value) {
    if (!value.is_object()) {
      throw Error(ErrorKind::kBadInput, "is " + type_name(value.kind()) + ", expected an object");
    }
  }

  std::optional<JsonValue> find(const std::string& key) const { return value_.find(key); }

  JsonValue at(const std::string& key) const {
    const auto value = find(key);
    if (!value) throw Error(ErrorKind::kBadInput, "key '" + key + "' is missing");
    return *value;
  }

  std::int64_t integer(const std::string& key) const {
    const JsonValue value = at(key);
    const auto integer = value.integer();
    if (!integer) throw wrong_type(key, value, "an integer");
    return *integer;
  }

 private:
  JsonValue value_;
};

const JsonValue& list_of(const std::string& key, const JsonValue& value) {
  if (!value.is_list()) throw wrong_type(key, value, "a list");
  return value;
}

Numbers numbers_of(const std::string& key, const JsonValue& value) {
  Numbers numbers;
  for (const JsonValue element : list_of(key, value)) {
    const auto integer = element.integer();
    if (!integer) {
      throw Error(ErrorKind::kBadInput, "key '" + key + "' has " + type_name(element.kind()) +
                                            " in a list, expected an integer");
    }
    numbers.push_back(*integer);
  }
  return numbers;
}

/// [3, 9] stands for one list, [[3, 9], [1]] for several; empty ones say nothing.
std::vector<Numbers> lists_of(const std::string& key, const JsonValue& value) {
  std::vector<Numbers> lists;
  if (list_of(key, value).size() > 0 && !(*value.begin()).is_list()) {
    lists.push_back(numbers_of(key, value));
    return lists;
  }
  for (const JsonValue element : value) {
    Numbers numbers = numbers_of(key, element);
    if (!numbers.empty()) lists.push_back(std::move(numbers));
  }
  return lists;
}

TensorMap read_tensor_map(const JsonValue& value) {
  const std::string key = "tensor_map";
  TensorMap map;
  for (const JsonValue element : list_of(key, value)) {
    if (element.is_list()) {
      map.push_back(dimension_axes(numbers_of(key, element)));
    } else if (const auto integer = element.integer()) {
      map.push_back(tensor_map_from_flat({*integer}).front());
    } else {
      throw Error(ErrorKind::kBadInput, "key '" + key + "' has " + type_name(element.kind()) +
                                            " in a list, expected an integer or a list of them");
    }
  }
  return map;
}

Layout read_layout(const JsonValue& value) {
  const Item item(value);
  Layout layout;
  layout.device_matrix = numbers_of("dev_matrix", item.at("dev_matrix"));
  layout.tensor_map = read_tensor_map(item.at("tensor_map"));
  layout.optimizer_shard_step = item.integer("opt_weight_shard_step");
  layout.optimizer_shard_size = item.integer("opt_weight_shard_size");
  if (item.find("field")) layout.field = item.integer("field");
  if (const auto shape = item.find("tensor_shape")) {
    layout.tensor_shape = numbers_of("tensor_shape", *shape);
  }
  if (const auto splits = item.find("param_split_shape")) {
    layout.param_split_shape = lists_of("param_split_shape", *splits);
  }
  if (const auto offsets = item.find("indices_offset")) {
    layout.indices_offset = lists_of("indices_offset", *offsets);
  }
  finish_layout(layout);
  return layout;
}

OperatorStrategy read_operator(std::string name, const JsonValue& value) {
  const Item item(value);
  OperatorStrategy op;
  op.node_name = std::move(name);
  op.stage = item.integer("stage");
  const std::string key = "parallel_strategy";
  const JsonValue cuts = item.at(key);
  for (const JsonValue cut : list_of(key, cuts)) op.cuts.push_back(numbers_of(key, cut));
  return op;
}

Error in_operator(const std::string& name, const Error& error) {
  return {error.kind(), "operator '" + printable(name) + "': " + error.message()};
}

/// Takes each item as soon as it is read: the values of all items at once would take many times the
/// size of the file.
class StrategyReader {
 public:
  explicit StrategyReader(std::string_view text) : reader_(text) {}

  RawStrategy read() {
    if (reader_.kind() != JsonKind::kObject) {
      throw Error(ErrorKind::kBadInput, "is not a strategy: the file is " +
                                            type_name(reader_.kind()) + ", expected an object");
    }
    reader_.enter();
    while (reader_.next()) {
      const std::string section(reader_.key());
      if (section == "parallel_layout_item") {
        read_section(section, &StrategyReader::take_layout);
      } else if (section == "parallel_strategy_item") {
        read_section(section, &StrategyReader::take_operator);
      }
    }
    reader_.finish();
    return std::move(raw_);
  }

 private:
  using Take = void (StrategyReader::*)(const std::string& name);

  void read_section(const std::string& section, Take take) {
    if (reader_.kind() != JsonKind::kObject) {
      throw Error(ErrorKind::kBadInput, "key '" + section + "' has " + type_name(reader_.kind()) +
                                            ", expected an object");
    }
    reader_.enter();
    while (reader_.next()) {
      const std::string name(reader_.key());
      check_room_for_item(raw_);
      (this->*take)(name);
    }
  }

  JsonValue value() {
    read_json_value(reader_, kItemLimits, nodes_);
    return {nodes_, 0};
  }

  void take_layout(const std::string& name) {
    try {
      raw_.layouts.emplace_back(name, std::make_shared<const Layout>(read_layout(value())));
    } catch (Error& error) {
      // What has an offset is no JSON: its message tells the way.
      if (!error.offset()) error.for_parameter(name);
      throw;
    }
  }

  void take_operator(const std::string& name) {
    try {
      raw_.operators.push_back(read_operator(name, value()));
    } catch (const Error& error) {
      if (error.offset()) throw;
      throw in_operator(name, error);
    }
  }

  JsonReader reader_;
  JsonNodes nodes_;
  RawStrategy raw_;
};

/// " (line 2, column 5)"
std::string line_and_column(std::string_view text, std::uint64_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return " (line " + std::to_string(lines + 1) + ", column " +
         std::to_string(before.size() - line_begin + 1) + ")";
}

}  // namespace

RawStrategy read_json_strategy(const std::string& text) {
  if (text.empty()) return {};
  try {
    return StrategyReader(text).read();
  } catch (Error& error) {
    if (error.offset()) error.explain(line_and_column(text, *error.offset()));
    throw;
  }
}

}  // namespace reshardfs
