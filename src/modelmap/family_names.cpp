// SPDX-License-Identifier: Apache-2.0
#include "modelmap/family_names.h"

#include <algorithm>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

/// The shape that is stated for a word that the captures took, or else for all words.
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

/// Whether it depends on the numbers in a name whether the pattern takes it.
bool heeds(const modelmap::Pattern& pattern) {
  // One that stands twice has to be the same.
  if (pattern.captures().size() != pattern.names().size()) return true;
  const auto has_digit = [](std::string_view text) {
    return std::any_of(text.begin(), text.end(), is_digit);
  };
  for (const modelmap::Pattern::Capture& capture : pattern.captures()) {
    if (!capture.is_word) continue;
    const std::vector<std::string> words = modelmap::Pattern::words_of(capture);
    if (words.empty() || std::any_of(words.begin(), words.end(), has_digit)) return true;
  }
  const std::string& text = pattern.text();
  bool is_capture = false;
  return std::any_of(text.begin(), text.end(), [&](char c) {
    if (c == '{' || c == '}') is_capture = c == '{';
    return !is_capture && is_digit(c);
  });
}

}  // namespace

FamilyNames::FamilyNames(const std::vector<modelmap::ModelMap>& maps) : maps_(maps) {
  for (std::size_t map = 0; map < maps.size(); ++map) {
    for (const modelmap::NamedTensors& tensors : maps[map].tensors) {
      Entry entry{2 * map + (tensors.is_from ? 1 : 0), modelmap::Pattern::parse(tensors.name),
                  &tensors};
      for (const std::string& shape : entry.pattern.shapes()) {
        by_shape_[shape].push_back(entries_.size());
        if (heeds(entry.pattern)) heeding_.insert(shape);
      }
      by_place_[{*tensors.place.file, tensors.place.line}].push_back(entries_.size());
      entries_.push_back(std::move(entry));
    }
  }
}

std::string FamilyNames::kind_of(std::string_view name) {
  constexpr std::size_t kMostDigits = 18;
  // Not to be taken for one with a number: no other kind has two of these.
  if (name.find('#') != std::string_view::npos) return std::string(name) + "##";
  std::string kind;
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    const bool is_plain = end - i == 1 || (end - i <= kMostDigits && name[i] != '0');
    if (end > i && is_plain) {
      kind += '#';
    } else {
      end = std::max(end, i + 1);
      kind.append(name, i, end - i);
    }
    i = end;
  }
  return kind;
}

bool FamilyNames::heeds_numbers(std::string_view name) const {
  for (std::size_t begin = 0; begin != std::string_view::npos;) {
    if (heeding_.contains(modelmap::Pattern::shape(name.substr(begin)))) return true;
    begin = name.find('.', begin);
    if (begin != std::string_view::npos) ++begin;
  }
  return false;
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
        FamilyName& one =
            found.emplace_back(FamilyName{entry.family,
                                          wholes == nullptr ? nullptr : whole_of(*wholes, *values),
                                          entry.tensors,
                                          prefix,
                                          layer_in(entry.pattern, *values, entry.tensors->stage),
                                          {}});
        if (one.layer)
          one.stack.append(whole_name, 0, prefix).append(entry.pattern.literal_start());
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
