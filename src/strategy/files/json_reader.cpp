// SPDX-License-Identifier: Apache-2.0
#include "strategy/files/json_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "strategy/files/json_items.h"
#include "strategy/files/layout_fields.h"

namespace reshardfs {
namespace {

Error wrong_type(const std::string& key, const StrategyJson& found, const std::string& expected) {
  return {ErrorKind::kBadInput,
          "key '" + key + "' has " + found.type_name() + ", expected " + expected};
}

/// One entry of parallel_layout_item or parallel_strategy_item.
class Item {
 public:
  explicit Item(const StrategyJson& value) : members_(value.object()) {
    if (members_ == nullptr) {
      throw Error(ErrorKind::kBadInput, "is " + value.type_name() + ", expected an object");
    }
  }

  const StrategyJson* find(const std::string& key) const {
    const auto found = std::find_if(members_->begin(), members_->end(),
                                    [&](const auto& member) { return member.key == key; });
    return found == members_->end() ? nullptr : &found->value;
  }

  const StrategyJson& at(const std::string& key) const {
    const StrategyJson* value = find(key);
    if (value == nullptr) throw Error(ErrorKind::kBadInput, "key '" + key + "' is missing");
    return *value;
  }

  std::int64_t integer(const std::string& key) const {
    const StrategyJson& value = at(key);
    if (value.integer() == nullptr) throw wrong_type(key, value, "an integer");
    return *value.integer();
  }

 private:
  const StrategyJson::Object* members_;
};

const StrategyJson::Array& list_of(const std::string& key, const StrategyJson& value) {
  if (value.array() == nullptr) throw wrong_type(key, value, "a list");
  return *value.array();
}

Numbers numbers_of(const std::string& key, const StrategyJson& value) {
  Numbers numbers;
  for (const StrategyJson& element : list_of(key, value)) {
    if (element.integer() == nullptr) {
      throw Error(ErrorKind::kBadInput, "key '" + key + "' has " + element.type_name() +
                                            " in a list, expected an integer");
    }
    numbers.push_back(*element.integer());
  }
  return numbers;
}

/// [3, 9] stands for one list, [[3, 9], [1]] for several; empty ones say nothing.
std::vector<Numbers> lists_of(const std::string& key, const StrategyJson& value) {
  const StrategyJson::Array& elements = list_of(key, value);
  std::vector<Numbers> lists;
  if (!elements.empty() && elements.front().array() == nullptr) {
    lists.push_back(numbers_of(key, value));
    return lists;
  }
  for (const StrategyJson& element : elements) {
    Numbers numbers = numbers_of(key, element);
    if (!numbers.empty()) lists.push_back(std::move(numbers));
  }
  return lists;
}

TensorMap read_tensor_map(const StrategyJson& value) {
  const std::string key = "tensor_map";
  TensorMap map;
  for (const StrategyJson& element : list_of(key, value)) {
    if (element.array() != nullptr) {
      map.push_back(dimension_axes(numbers_of(key, element)));
    } else if (element.integer() != nullptr) {
      map.push_back(tensor_map_from_flat({*element.integer()}).front());
    } else {
      throw Error(ErrorKind::kBadInput, "key '" + key + "' has " + element.type_name() +
                                            " in a list, expected an integer or a list of them");
    }
  }
  return map;
}

Layout read_layout(const StrategyJson& value) {
  const Item item(value);
  Layout layout;
  layout.device_matrix = numbers_of("dev_matrix", item.at("dev_matrix"));
  layout.tensor_map = read_tensor_map(item.at("tensor_map"));
  layout.optimizer_shard_step = item.integer("opt_weight_shard_step");
  layout.optimizer_shard_size = item.integer("opt_weight_shard_size");
  if (item.find("field") != nullptr) layout.field = item.integer("field");
  if (const StrategyJson* shape = item.find("tensor_shape")) {
    layout.tensor_shape = numbers_of("tensor_shape", *shape);
  }
  if (const StrategyJson* splits = item.find("param_split_shape")) {
    layout.param_split_shape = lists_of("param_split_shape", *splits);
  }
  if (const StrategyJson* offsets = item.find("indices_offset")) {
    layout.indices_offset = lists_of("indices_offset", *offsets);
  }
  finish_layout(layout);
  return layout;
}

OperatorStrategy read_operator(std::string name, const StrategyJson& value) {
  const Item item(value);
  OperatorStrategy op;
  op.node_name = std::move(name);
  op.stage = item.integer("stage");
  const std::string key = "parallel_strategy";
  for (const StrategyJson& cut : list_of(key, item.at(key)))
    op.cuts.push_back(numbers_of(key, cut));
  return op;
}

class Collector : public JsonItemSink {
 public:
  RawStrategy raw;

  void layout_item(std::string name, const StrategyJson& value) override {
    check_room_for_item(raw);
    try {
      Layout layout = read_layout(value);
      raw.layouts.emplace_back(std::move(name), std::move(layout));
    } catch (Error& error) {
      error.for_parameter(name);
      throw;
    }
  }

  void operator_item(std::string name, const StrategyJson& value) override {
    check_room_for_item(raw);
    try {
      raw.operators.push_back(read_operator(name, value));
    } catch (const Error& error) {
      throw Error(error.kind(), "operator '" + printable(name) + "': " + error.message());
    }
  }
};

}  // namespace

RawStrategy read_json_strategy(const std::string& text) {
  Collector collector;
  if (!text.empty()) walk_json_items(text, collector);
  return std::move(collector.raw);
}

}  // namespace reshardfs
