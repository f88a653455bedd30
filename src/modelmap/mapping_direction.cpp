// SPDX-License-Identifier: Apache-2.0
/// States of optimizers, and the direction that names speak for.
#include <algorithm>
#include <array>
#include <utility>

#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {
namespace {

constexpr std::array<const char*, 8> kStatePrefixes = {"accu_grads.", "adam_m.",     "adam_v.",
                                                       "exp_avg.",    "exp_avg_sq.", "moment1.",
                                                       "moment2.",    "moments."};

/// The names of one side.
class SideNames {
 public:
  SideNames(const ModelMap& map, Direction direction, const Variables& variables)
      : prefixes_(state_prefixes(map, direction)) {
    const Scope scope(variables);
    for (std::size_t i = 0; i < map.rules.size(); ++i) {
      const MapRule& rule = map.rules[i];
      if (i == map.rest || !is_for_types(rule, variables.config.model_types())) continue;
      if (direction == Direction::kInverse) {
        add(rule.to, i, scope);
      } else {
        for (const Pattern& pattern : rule.from) add(pattern, i, scope);
      }
    }
  }

  /// Second names of tensors count, too.
  void add_aliases(const ModelMap& map, Direction direction, const Variables& variables) {
    const Scope scope(variables);
    for (const MapAlias& alias : map.aliases) {
      if (alias.is_from == (direction == Direction::kForward)) {
        add(alias.name, map.rules.size(), scope);
      }
    }
  }

  bool takes(const std::string& name) const {
    if (index_.takes(name)) return true;
    const std::string_view prefix = state_prefix_of(prefixes_, name);
    return !prefix.empty() && index_.takes(std::string_view(name).substr(prefix.size()));
  }

 private:
  void add(const Pattern& pattern, std::size_t rule, const Scope& scope) {
    try {
      index_.add({&pattern, pattern.numberings(scope.lookup()), rule, 0});
    } catch (const Error&) {
      // Without its variables it takes no name; whether it needs them will be seen.
    }
  }

  PatternIndex index_{};
  std::map<std::string, std::string> prefixes_;
};

}  // namespace

std::map<std::string, std::string> state_prefixes(const ModelMap& map, Direction direction) {
  std::map<std::string, std::string> prefixes;
  for (const auto& [from, to] : map.states) {
    if (direction == Direction::kForward) {
      prefixes[from] = to;
    } else {
      prefixes[to] = from;
    }
  }
  for (const char* prefix : kStatePrefixes) prefixes.emplace(prefix, prefix);
  return prefixes;
}

std::string_view state_prefix_of(const std::map<std::string, std::string>& prefixes,
                                 const std::string& name) {
  std::string_view longest;
  for (const auto& [prefix, other] : prefixes) {
    if (prefix.size() > longest.size() && name.size() > prefix.size() && name.starts_with(prefix)) {
      longest = prefix;
    }
  }
  return longest;
}

std::vector<bool> taken_names(const ModelMap& map, Direction direction,
                              const std::vector<SourceTensor>& tensors, const MapOptions& options) {
  const Variables variables = variables_for_names(map, options, tensors, direction);
  SideNames names(map, direction, variables);
  names.add_aliases(map, direction, variables);
  std::vector<bool> taken;
  taken.reserve(tensors.size());
  for (const SourceTensor& tensor : tensors) taken.push_back(names.takes(tensor.name));
  return taken;
}

std::vector<bool> kept_names(const ModelMap& map, Direction direction,
                             const std::vector<SourceTensor>& tensors, const MapOptions& options) {
  if (!map.rest) return std::vector<bool>(tensors.size());
  const Direction other =
      direction == Direction::kForward ? Direction::kInverse : Direction::kForward;
  const Variables variables = variables_for_names(map, options, tensors, direction);
  const SideNames made(map, other, variables);
  std::vector<bool> kept = taken_names(map, direction, tensors, options);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    kept[i] = !kept[i] && !matches_any(map.rest_except, name) && !made.takes(name);
  }
  return kept;
}

std::size_t count_taken(const ModelMap& map, Direction direction,
                        const std::vector<SourceTensor>& tensors, const MapOptions& options) {
  const std::vector<bool> taken = taken_names(map, direction, tensors, options);
  return static_cast<std::size_t>(std::count(taken.begin(), taken.end(), true));
}

Direction find_direction(const ModelMap& map, const std::vector<SourceTensor>& tensors,
                         const MapOptions& options) {
  const Variables forward_variables =
      variables_for_names(map, options, tensors, Direction::kForward);
  const Variables inverse_variables =
      variables_for_names(map, options, tensors, Direction::kInverse);
  const SideNames from(map, Direction::kForward, forward_variables);
  const SideNames to(map, Direction::kInverse, inverse_variables);
  const std::string* forward = nullptr;
  const std::string* inverse = nullptr;
  for (const SourceTensor& tensor : tensors) {
    // Nearly all names are of one side: the other one is all that is left to be asked.
    const bool may_be_forward = forward == nullptr && from.takes(tensor.name);
    const bool is_to = (may_be_forward || inverse == nullptr) && to.takes(tensor.name);
    if (may_be_forward && !is_to) forward = &tensor.name;
    if (is_to && inverse == nullptr && !from.takes(tensor.name)) inverse = &tensor.name;
    if (forward != nullptr && inverse != nullptr) break;
  }
  if ((forward == nullptr) != (inverse == nullptr)) {
    return forward != nullptr ? Direction::kForward : Direction::kInverse;
  }
  const bool any_known =
      std::any_of(tensors.begin(), tensors.end(),
                  [&](const SourceTensor& tensor) { return from.takes(tensor.name); });
  if (forward == nullptr && !any_known) {
    throw Error(ErrorKind::kUsage, "no rule of the map takes a tensor of the source")
        .in_file(map.file);
  }
  const std::string what = forward == nullptr
                               ? "no name in the source belongs to one side of the map alone"
                               : "'" + printable(*forward) + "' is a name of " + map.from_side +
                                     ", '" + printable(*inverse) + "' one of " + map.to_side;
  throw Error(ErrorKind::kUsage, what)
      .in_file(map.file)
      .hint("choose with --map-direction forward or inverse");
}

}  // namespace reshardfs::modelmap
