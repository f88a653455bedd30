// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace reshardfs {

struct StrategyJsonMember;

/// A JSON value as far as strategy files have any: objects keep their order.
struct StrategyJson {
  /// A value that no key of a strategy has, by the name of its type.
  struct Other {
    std::string_view type;
  };
  using Array = std::vector<StrategyJson>;
  using Object = std::vector<StrategyJsonMember>;

  std::variant<Other, std::int64_t, std::string, Array, Object> value;

  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&value); }
  const Array* array() const { return std::get_if<Array>(&value); }
  const Object* object() const { return std::get_if<Object>(&value); }
  /// "a number with a fraction", "a list", ...: for messages.
  std::string type_name() const;
};

struct StrategyJsonMember {
  std::string key;
  StrategyJson value;
};

/// Takes the items of a strategy file one by one, in file order.
class JsonItemSink {
 public:
  virtual ~JsonItemSink() = default;
  /// An entry of parallel_layout_item.
  virtual void layout_item(std::string name, const StrategyJson& value) = 0;
  /// An entry of parallel_strategy_item.
  virtual void operator_item(std::string name, const StrategyJson& value) = 0;
};

/// Walks a JSON strategy file and hands over each item as soon as it is read: the values of all
/// items at once would take many times the size of the file.
/// @throws Error kBadInput with the position.
void walk_json_items(const std::string& text, JsonItemSink& sink);

}  // namespace reshardfs
