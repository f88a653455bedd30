// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/megatron_args.h"

#include <algorithm>
#include <cstddef>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

// Megatron-LM has about a thousand. A pickle may refer to a long text as often as it likes.
constexpr std::size_t kMostArguments = 16384;
constexpr std::size_t kMostArgumentText = 256;

}  // namespace

MegatronArgs::MegatronArgs(const PickleTree& tree, PickleValue object) {
  tree.for_each_pair(tree.state(object), [&](PickleValue key, PickleValue value) {
    const auto name = tree.text(key);
    if (!name) return true;
    std::optional<Value> plain;
    if (value.is(PickleKind::kNone)) plain = std::monostate();
    if (const auto truth = tree.boolean(value)) plain = *truth;
    if (const auto number = tree.integer(value)) plain = *number;
    if (const auto text = tree.text(value); text && text->size() <= kMostArgumentText) {
      plain = std::string(*text);
    }
    if (plain) values_.emplace(*name, std::move(*plain));
    if (values_.size() > kMostArguments) {
      throw Error(ErrorKind::kBadInput, "has more than 16384 arguments of a training");
    }
    return true;
  });
}

const MegatronArgs::Value* MegatronArgs::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> MegatronArgs::number(std::string_view name) const {
  const Value* const value = find(name);
  const auto* const number = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::optional<bool> MegatronArgs::flag(std::string_view name) const {
  const Value* const value = find(name);
  const bool* const truth = value == nullptr ? nullptr : std::get_if<bool>(value);
  return truth == nullptr ? std::nullopt : std::optional(*truth);
}

bool MegatronArgs::is_none(std::string_view name) const {
  const Value* const value = find(name);
  return value != nullptr && std::holds_alternative<std::monostate>(*value);
}

bool MegatronArgs::is_set(std::string_view name) const {
  const Value* const value = find(name);
  return value != nullptr && !std::holds_alternative<std::monostate>(*value) &&
         flag(name) != std::optional(false);
}

std::optional<std::string_view> MegatronArgs::difference(
    const MegatronArgs& other, std::span<const std::string_view> names) const {
  const auto differs = [&](std::string_view name) {
    const Value* const mine = find(name);
    const Value* const its = other.find(name);
    return mine == nullptr || its == nullptr ? mine != its : *mine != *its;
  };
  const auto found = std::find_if(names.begin(), names.end(), differs);
  return found == names.end() ? std::nullopt : std::optional(*found);
}

std::string MegatronArgs::words(std::string_view name) const {
  const Value* const value = find(name);
  if (value == nullptr) return "not stated";
  if (const auto truth = flag(name)) return *truth ? "True" : "False";
  if (const auto number = this->number(name)) return std::to_string(*number);
  const auto* const text = std::get_if<std::string>(value);
  return text == nullptr ? "None" : "'" + printable(*text) + "'";
}

}  // namespace reshardfs
