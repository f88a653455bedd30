// SPDX-License-Identifier: Apache-2.0
#include "modelmap/mapping.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/name_order.h"
#include "base/text/text.h"
#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {
namespace {

/// "line 5", with the file if it is not that of `here`.
std::string other_place(const MapPlace& place, const MapPlace& here) {
  const std::string line = "line " + std::to_string(place.line);
  return *place.file == *here.file ? line : line + " of " + printable(*place.file);
}

bool mentions(const std::set<std::string>& names, const MapRule& rule) {
  for (std::size_t i = 0; i < rule.to_captures; ++i) {
    if (names.contains(rule.captures[i].name)) return true;
  }
  return false;
}

}  // namespace

MappingWork::MappingWork(const ModelMap& map, const std::vector<SourceTensor>& tensors,
                         const MapOptions& options, Direction direction)
    : map_(map),
      tensors_(tensors),
      options_(options),
      direction_(direction),
      variables_(variables_of(map, options)),
      rules_(map.rules.size()),
      names_(tensors.size(), {&tensors}),
      sets_(1),
      prefixes_(state_prefixes(map, direction)),
      fates_(tensors.size(), Fate::kUnknown) {
  for (std::uint32_t i = 0; i < tensors.size(); ++i) names_.try_emplace(tensors[i].name, i);
}

Mapping MappingWork::run() {
  check_options();
  try {
    variables_.pattern = pattern_of(map_, options_, tensors_, direction_);
  } catch (Error& error) {
    throw error.in_file(map_.file);
  }
  prove_variables();
  for (std::size_t i = 0; i < rules_.size(); ++i) prepare_rule(i);
  index_patterns();
  hide_source_aliases();
  find_applications();
  report_undecided();
  targets_.reserve(applications_.size());
  if (direction_ == Direction::kForward) {
    made_.reserve(applications_.size());
    reads_.reserve(tensors_.size());
    for (const Application& application : applications_) make_forward(application);
    check_sources_read();
  } else {
    for (const Application& application : applications_) make_inverse(application);
    join_pieces();
  }
  add_target_aliases();
  check_family();
  check_rules_used();
  check_unused();
  check_names();
  return finish();
}

void MappingWork::check_options() const {
  const std::set<std::string> known = map_.mentioned_names();
  for (const auto& [name, value] : options_.variables) {
    if (known.contains(name)) continue;
    throw Error(ErrorKind::kUsage, "--map-var " + printable(name) + ": no rule uses it")
        .in_file(map_.file);
  }
}

void MappingWork::prepare_conditions(std::size_t number) {
  const MapRule& rule = map_.rules[number];
  RuleWork& work = rules_[number];
  const Scope scope(variables_);
  work.is_active = is_for_types(rule, variables_.config.model_types());
  for (const auto& condition : rule.when) {
    if (mentions(variables_.with_dependencies(condition->names()), rule)) {
      work.has_capture_condition = true;
      continue;
    }
    try {
      if (scope.evaluate(*condition) != 0) continue;
      work.is_active = false;
      return;  // others may have no answer then
    } catch (const UnknownVariable& unknown) {
      // Only a tensor that it would take makes that a problem.
      if (!work.undecided) work.undecided = unknown;
    }
  }
}

void MappingWork::prepare_rule(std::size_t number) {
  const MapRule& rule = map_.rules[number];
  RuleWork& work = rules_[number];
  try {
    prepare_conditions(number);
    if (!work.is_active) return;
    const Scope scope(variables_);
    const NameLookup look_up = scope.lookup();
    work.to_numberings = rule.to.numberings(look_up);
    for (const Pattern& pattern : rule.from)
      work.from_numberings.push_back(pattern.numberings(look_up));
  } catch (const Error& error) {
    problems_.add(ProblemKind::kVariable, rule.place,
                  printable(rule.to.text()) + ": " + error.message());
    work.is_broken = true;
    return;
  }
  std::vector<std::string> names = names_in(*rule.body);
  if (!options_.shapes_alone) {
    const std::vector<std::string> required = names_in(rule.require);
    names.insert(names.end(), required.begin(), required.end());
  }
  for (const RuleCapture& capture : rule.captures) {
    if (!capture.range) continue;
    names.insert(names.end(), capture.range->names().begin(), capture.range->names().end());
  }
  const std::set<std::string> all = variables_.with_dependencies(names);
  for (std::size_t i = 0; i < rule.to_captures; ++i) {
    if (all.contains(rule.captures[i].name)) work.form_captures.push_back(i);
  }
  for (const char* parts : {"tp", "from_tp"}) {
    if (all.contains(parts)) work.form_parts.emplace_back(parts);
  }
  for (const auto& captures : rule.from_captures) {
    const auto shared = [&](std::size_t i) { return rule.captures[i].side == CaptureSide::kBoth; };
    const auto has = std::count_if(captures.begin(), captures.end(), shared);
    const auto all_shared = std::count_if(
        rule.captures.begin(), rule.captures.end(),
        [](const RuleCapture& capture) { return capture.side == CaptureSide::kBoth; });
    work.tells_all.push_back(has == all_shared);
  }
}

void MappingWork::index_patterns() {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const RuleWork& work = rules_[i];
    if (!work.is_active || work.is_broken) continue;
    if (i == map_.rest) continue;
    const MapRule& rule = map_.rules[i];
    const bool is_inverse = direction_ == Direction::kInverse;
    if (is_inverse || map_.rest) {
      (is_inverse ? index_ : other_side_).add({&rule.to, work.to_numberings, i, 0});
    }
    if (is_inverse && !map_.rest) continue;
    for (std::size_t k = 0; k < rule.from.size(); ++k) {
      (is_inverse ? other_side_ : index_).add({&rule.from[k], work.from_numberings[k], i, k});
    }
  }
}

void MappingWork::check_rules_used() {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const RuleWork& work = rules_[i];
    const MapRule& rule = map_.rules[i];
    if (!work.is_active || work.is_broken || work.is_used || rule.optional) continue;
    if (work.undecided) continue;
    if (!rule.part.empty()) continue;  // no layer need have it
    const Pattern& pattern = direction_ == Direction::kForward ? rule.from[0] : rule.to;
    problems_.add(ProblemKind::kRuleUnused, rule.place,
                  printable(pattern.text()) + ": no tensor of the source is for this rule");
  }
}

void MappingWork::check_unused() {
  const bool any_broken = std::any_of(rules_.begin(), rules_.end(),
                                      [](const RuleWork& work) { return work.is_broken; });
  if (any_broken) return;  // it may have been for them
  const auto count = std::count(fates_.begin(), fates_.end(), Fate::kUnknown);
  for (std::size_t i = 0; i < fates_.size(); ++i) {
    if (fates_[i] != Fate::kUnknown) continue;
    problems_.add(
        ProblemKind::kNoRule, map_.file,
        printable(tensors_[i].name) + ": no rule uses it (" +
            counted(static_cast<std::size_t>(count), "such tensor") + ")" +
            (tensors_[i].name.ends_with("_scale_inv")
                 ? "; --dequantize shows weights without their scales"
                 : "; --rename gives it a name that the map knows, --drop leaves it out"));
  }
}

void MappingWork::check_names() {
  std::vector<std::string_view> names;
  names.reserve(targets_.size());
  for (const OrderedTarget& target : targets_) names.emplace_back(target.tensor.name);
  if (are_distinct(names)) return;
  std::sort(targets_.begin(), targets_.end(), [](const OrderedTarget& a, const OrderedTarget& b) {
    return a.tensor.name < b.tensor.name;
  });
  for (std::size_t i = 1; i < targets_.size(); ++i) {
    const TargetTensor& tensor = targets_[i].tensor;
    if (tensor.name != targets_[i - 1].tensor.name) continue;
    problems_.add(ProblemKind::kTwoRules, tensor.place,
                  printable(tensor.name) + ": two rules make it, the other one in " +
                      other_place(targets_[i - 1].tensor.place, tensor.place));
  }
}

Mapping MappingWork::finish() {
  // Targets are large: their numbers are sorted.
  std::vector<std::uint32_t> order(targets_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t left, std::uint32_t right) {
    const OrderedTarget& a = targets_[left];
    const OrderedTarget& b = targets_[right];
    return std::tie(a.first_source, a.rule, a.values, a.pattern, a.tensor.name) <
           std::tie(b.first_source, b.rule, b.values, b.pattern, b.tensor.name);
  });
  out_.direction = direction_;
  out_.targets.reserve(targets_.size());
  for (const std::uint32_t number : order) {
    OrderedTarget& target = targets_[number];
    target.tensor.is_kept = map_.rest == target.rule;
    out_.targets.push_back(std::move(target.tensor));
  }
  out_.problems = problems_.take();
  return std::move(out_);
}

Variables variables_of(const ModelMap& map, const MapOptions& options) {
  return {options.variables,
          map.variables,
          options.config,
          map.settings,
          map.release_proofs,
          options.training,
          options.release,
          {},
          {},
          {}};
}

std::vector<VariableValue> known_settings(const ModelMap& map, const MapOptions& options) {
  const Variables variables = variables_of(map, options);
  const Scope scope(variables);
  std::vector<VariableValue> values;
  for (const auto& [name, setting] : map.settings) {
    const bool is_shown =
        options.direction && setting.is_shown_by(*options.direction == Direction::kForward);
    if (is_shown) continue;
    Known<std::int64_t> value = scope.known(name);
    if (value) values.push_back({name, std::move(value)});
  }
  return values;
}

const std::string& target_side(const ModelMap& map, Direction direction) {
  return direction == Direction::kForward ? map.to_side : map.from_side;
}

Mapping check_mapping(const ModelMap& map, const std::vector<SourceTensor>& tensors,
                      const MapOptions& options) {
  const Direction direction =
      options.direction ? *options.direction : find_direction(map, tensors, options);
  return MappingWork(map, tensors, options, direction).run();
}

Mapping map_tensors(const ModelMap& map, const std::vector<SourceTensor>& tensors,
                    const MapOptions& options) {
  Mapping mapping = check_mapping(map, tensors, options);
  if (!mapping.problems.empty()) throw mapping.problems[0].error();
  return mapping;
}

}  // namespace reshardfs::modelmap
