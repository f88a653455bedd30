// SPDX-License-Identifier: Apache-2.0
/// The arguments of the training that Megatron-LM saves beside the model: an argparse.Namespace,
/// of which the plain attributes are read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "format/torch/pickle_tree.h"

namespace reshardfs {

class MegatronArgs {
 public:
  MegatronArgs() = default;
  /// @param object whatever its class; attributes that are no None, truth value, 64-bit integer or
  ///        text of at most 256 bytes are passed over.
  /// @throws Error kBadInput, without the file, if there are more than 16384 attributes.
  MegatronArgs(const PickleTree& tree, PickleValue object);

  /// Whether there are none.
  bool empty() const noexcept { return values_.empty(); }
  /// Nothing if it is no integer, or is not there.
  std::optional<std::int64_t> number(std::string_view name) const;
  /// Nothing if it is no truth value, or is not there.
  std::optional<bool> flag(std::string_view name) const;
  bool is_none(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Whether it is there and is neither None nor False.
  bool is_set(std::string_view name) const;

  /// The first of the names whose values are not the same in both.
  std::optional<std::string_view> difference(const MegatronArgs& other,
                                             std::span<const std::string_view> names) const;
  /// For messages: "4", "None", "not stated".
  std::string words(std::string_view name) const;

 private:
  using Value = std::variant<std::monostate, bool, std::int64_t, std::string>;

  const Value* find(std::string_view name) const;

  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace reshardfs
