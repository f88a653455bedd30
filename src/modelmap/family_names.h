// SPDX-License-Identifier: Apache-2.0
/// Which maps of model families have rules for a name, and what these say of its tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "modelmap/model_map.h"
#include "modelmap/pattern.h"

namespace reshardfs {

/// The names of one side of a map are a family.
struct FamilyName {
  std::size_t family = 0;                       ///< a number below FamilyNames::count()
  const modelmap::WholeShape* whole = nullptr;  ///< nullptr: the map does not say
  const modelmap::NamedTensors* tensors = nullptr;
  std::size_t prefix = 0;               ///< bytes of the name in front of what the map has
  std::optional<std::int64_t> layer{};  ///< that the rule's own `stage` reads from the name
  std::string stack{};                  ///< the name in front of that number

  bool is_from() const noexcept { return family % 2 == 1; }
  /// Whether that rule or alias states it.
  bool is_of(const modelmap::MapPlace& place) const {
    return tensors->place.line == place.line && *tensors->place.file == *place.file;
  }
};

class FamilyNames {
 public:
  /// @param maps must outlive it.
  explicit FamilyNames(const std::vector<modelmap::ModelMap>& maps);

  std::size_t count() const { return 2 * maps_.size(); }
  const modelmap::ModelMap& map_of(std::size_t family) const { return maps_[family / 2]; }
  /// "MindFormers" of the side "MindFormers legacy".
  std::string network_of(std::size_t family) const;

  /// What the families have of a name, whatever stands before it: networks call the block around a
  /// layer in many ways. Of the longest part of the name that any family has.
  /// O(length of the name), but for families that have the same names.
  std::vector<FamilyName> find(std::string_view name) const;
  /// The same for names that differ in numbers alone. Numbers that no rule has to take, with zeros
  /// in front or too many digits, stay.
  static std::string kind_of(std::string_view name);
  /// Whether names of the same kind may be of other families: a rule is for some numbers only.
  bool heeds_numbers(std::string_view name) const;
  /// The tensors of a rule or an alias, on both sides.
  std::vector<FamilyName> of_rule(const modelmap::MapPlace& place) const;

 private:
  struct Entry {
    std::size_t family = 0;
    modelmap::Pattern pattern{};
    const modelmap::NamedTensors* tensors = nullptr;
  };

  const std::vector<modelmap::ModelMap>& maps_;
  std::vector<Entry> entries_{};
  /// By Pattern::shape().
  std::unordered_map<std::string, std::vector<std::size_t>> by_shape_{};
  std::unordered_set<std::string> heeding_{};  ///< shapes of patterns that heed numbers
  std::map<std::pair<std::string, std::int64_t>, std::vector<std::size_t>> by_place_{};
};

}  // namespace reshardfs
