// SPDX-License-Identifier: Apache-2.0
#include "modelmap/family_names.h"

#include <algorithm>

namespace reshardfs {
namespace {

/// What is said of the words that the captures took, or of all words.
const modelmap::WholeShape* whole_of(const modelmap::WholeShapes& wholes,
                                     const std::vector<modelmap::CaptureValue>& values) {
  for (const modelmap::CaptureValue& value : values) {
    if (const auto found = wholes.find(value.word); found != wholes.end()) return &found->second;
  }
  const auto found = wholes.find("");
  return found == wholes.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> layer_in(const modelmap::Pattern& pattern,
                                     const std::vector<modelmap::CaptureValue>& values,
                                     const modelmap::StageStatement& stage) {
  if (stage.place != modelmap::StagePlace::kLayer) return std::nullopt;
  const auto& names = pattern.names();
  const auto slot = std::find(names.begin(), names.end(), stage.capture) - names.begin();
  return values[static_cast<std::size_t>(slot)].number;
}

}  // namespace

FamilyNames::FamilyNames(const std::vector<modelmap::ModelMap>& maps) : maps_(maps) {
  for (std::size_t map = 0; map < maps.size(); ++map) {
    for (const modelmap::NamedTensors& tensors : maps[map].tensors) {
      Entry entry{2 * map + (tensors.is_from ? 1 : 0), modelmap::Pattern::parse(tensors.name),
                  &tensors};
      for (const std::string& shape : entry.pattern.shapes()) {
        by_shape_[shape].push_back(entries_.size());
      }
      by_place_[{*tensors.place.file, tensors.place.line}].push_back(entries_.size());
      entries_.push_back(std::move(entry));
    }
  }
}

std::string FamilyNames::network_of(std::size_t family) const {
  const modelmap::ModelMap& map = map_of(family);
  const std::string& side = family % 2 == 1 ? map.from_side : map.to_side;
  // Words that follow in small letters are variants.
  std::size_t end = side.find(' ');
  while (end != std::string::npos && end + 1 < side.size() && side[end + 1] >= 'A' &&
         side[end + 1] <= 'Z') {
    end = side.find(' ', end + 1);
  }
  return side.substr(0, end);
}

std::vector<FamilyName> FamilyNames::of_rule(const modelmap::MapPlace& place) const {
  std::vector<FamilyName> all;
  const auto found = by_place_.find({*place.file, place.line});
  if (found == by_place_.end()) return all;
  for (const std::size_t number : found->second) {
    all.push_back({entries_[number].family, nullptr, entries_[number].tensors, 0, {}, {}});
  }
  return all;
}

std::vector<FamilyName> FamilyNames::find(std::string_view name) const {
  const std::string_view whole_name = name;
  std::vector<FamilyName> found;
  std::size_t prefix = 0;
  while (found.empty()) {
    if (const auto same = by_shape_.find(modelmap::Pattern::shape(name)); same != by_shape_.end()) {
      for (const std::size_t number : same->second) {
        const Entry& entry = entries_[number];
        // Which layer it is does not matter.
        const auto values = entry.pattern.match(name, entry.pattern.plain_numberings());
        if (!values) continue;
        const modelmap::WholeShapes* wholes = entry.tensors->wholes.get();
        found.push_back({entry.family, wholes == nullptr ? nullptr : whole_of(*wholes, *values),
                         entry.tensors, prefix,
                         layer_in(entry.pattern, *values, entry.tensors->stage),
                         std::string(whole_name.substr(0, prefix)) +
                             std::string(entry.pattern.literal_start())});
      }
    }
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos) break;
    name.remove_prefix(dot + 1);
    prefix += dot + 1;
  }
  return found;
}

}  // namespace reshardfs
