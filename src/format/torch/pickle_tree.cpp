// SPDX-License-Identifier: Apache-2.0
#include "format/torch/pickle_tree.h"

#include <array>
#include <utility>

#include "reshardfs/error.h"

#include "format/torch/pickle_layout.h"
#include "format/torch/pickle_reader.h"

namespace reshardfs {

PickleTree::PickleTree(std::string bytes, const PickleRules& rules) : bytes_(std::move(bytes)) {
  PickleReader(*this, rules).read();
}

std::optional<std::int64_t> PickleTree::integer(PickleValue value) const noexcept {
  if (value.is(PickleKind::kWideInt)) return wide_[value.payload()];
  if (!value.is(PickleKind::kInt)) return std::nullopt;
  return pickle::inline_number(value);
}

std::optional<bool> PickleTree::boolean(PickleValue value) const noexcept {
  if (!value.is(PickleKind::kBool)) return std::nullopt;
  return value.payload() != 0;
}

std::optional<std::string_view> PickleTree::text(PickleValue value) const noexcept {
  if (!value.is(PickleKind::kText)) return std::nullopt;
  return std::string_view(bytes_).substr(pickle::start_of_text(value),
                                         pickle::length_of_text(value));
}

std::span<const PickleValue> PickleTree::tuple(PickleValue value) const noexcept {
  if (!value.is(PickleKind::kTuple)) return {};
  return std::span(values_).subspan(pickle::start_of_tuple(value), pickle::length_of_tuple(value));
}

std::size_t PickleTree::count(PickleValue value) const noexcept {
  const bool dict = value.is(PickleKind::kDict);
  if (!dict && !value.is(PickleKind::kList)) return 0;
  std::size_t total = 0;
  visit_segments(value, [&](std::span<const PickleValue> part) {
    total += part.size();
    return true;
  });
  return dict ? total / 2 : total;
}

std::optional<PickleGlobal> PickleTree::global(PickleValue value) const noexcept {
  if (!value.is(PickleKind::kGlobal)) return std::nullopt;
  return globals_[value.payload()];
}

std::optional<PickleGlobal> PickleTree::maker(PickleValue value) const noexcept {
  if (!value.is(PickleKind::kObject)) return std::nullopt;
  const std::uint32_t maker = objects_[value.payload()].maker;
  if (maker >= globals_.size()) return std::nullopt;
  return globals_[maker];
}

PickleValue PickleTree::arguments(PickleValue value) const noexcept {
  const bool has = value.is(PickleKind::kObject) || value.is(PickleKind::kPersistent);
  return has ? objects_[value.payload()].arguments : PickleValue();
}

PickleValue PickleTree::state(PickleValue value) const noexcept {
  return value.is(PickleKind::kObject) ? objects_[value.payload()].state : PickleValue();
}

PickleValue PickleTree::items(PickleValue object) const noexcept {
  if (!object.is(PickleKind::kObject)) return {};
  const auto found = items_.find(object.payload());
  return found == items_.end() ? PickleValue() : found->second;
}

PickleValue PickleTree::find(PickleValue dict, std::string_view key) const noexcept {
  PickleValue found;
  for_each_pair(dict, [&](PickleValue name, PickleValue value) {
    if (text(name) == key) found = value;
    return found.is(PickleKind::kUnset);
  });
  return found;
}

std::string to_string(const PickleGlobal& global) {
  return std::string(global.module) + "." + std::string(global.name);
}

std::string_view kind_words(PickleKind kind) noexcept {
  static constexpr std::array<std::string_view, 15> kWords{
      "nothing",  "None",         "a boolean", "a number",  "a number",
      "a number", "a float",      "a text",    "bytes",     "a tuple",
      "a list",   "a dictionary", "a class",   "an object", "a persistent id"};
  return kWords.at(static_cast<std::size_t>(kind));
}

}  // namespace reshardfs
