// SPDX-License-Identifier: Apache-2.0
/// How many layers, experts and so on a model has: what is stated, and what its tensors' names say.
/// Private to the check of families.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "modelmap/model_map.h"
#include "modelmap/variables.h"

namespace reshardfs::modelmap {

/// A capture that numbers something: by its name if the map states how many there are, or else
/// those of one block, or of one rule.
struct CountKey {
  std::string capture{};
  std::size_t block = 0;
  std::size_t rule = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const CountKey&) const = default;
};

/// The values of a capture.
struct Count {
  std::set<std::int64_t> seen{};         ///< in names of weights
  std::string example{};                 ///< a name with the largest
  MapPlace place{};                      ///< of a rule that has it
  bool is_declared = false;              ///< the map states how many there are to be
  std::optional<std::int64_t> stated{};  ///< how many there are
  std::string origin{};                  ///< of `stated`: "'layers' of config.json"

  /// How many the names say, at least.
  std::int64_t named() const { return seen.empty() ? 0 : *seen.rbegin() + 1; }
  /// How many the model has, at least.
  std::int64_t expected() const { return stated.value_or(named()); }
};

/// What a map states about a capture: [counts], or if it has such, a range that depends on no other
/// capture.
/// @param range perhaps nullptr.
void state_count(const ModelMap& map, const Variables& variables, const std::string& capture,
                 const Expression* range, Count& count);

/// "1, 3-5".
std::string numbers_text(const std::vector<std::int64_t>& numbers);

}  // namespace reshardfs::modelmap
