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

/// Far more than any model has tensors.
constexpr std::size_t kMostApplications = std::size_t{1} << 20U;

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
  for (std::size_t i = 0; i < rule.to_captures; ++i) work.to_captures.push_back(i);
  work.reads_one = rule.from.size() == 1 && std::none_of(rule.captures.begin(), rule.captures.end(),
                                                         [](const RuleCapture& each) {
                                                           return each.side == CaptureSide::kFrom;
                                                         });
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

void MappingWork::find_applications() {
  applications_.reserve(tensors_.size());
  out_.uses.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) match_tensor(static_cast<std::uint32_t>(i));
  std::sort(applications_.begin(), applications_.end());
  applications_.erase(std::unique(applications_.begin(), applications_.end()), applications_.end());
  for (const Application& application : applications_) rules_[application.rule].is_used = true;
}

void MappingWork::match_tensor(std::uint32_t number) {
  if (fates_[number] != Fate::kUnknown) return;
  const std::string& name = tensors_[number].name;
  const bool is_left_out = options_.leaves_out && options_.leaves_out(name);
  if (!is_left_out && take_matches(number, name, 0)) return;
  if (fates_[number] == Fate::kSkipped) return;
  const std::string prefix = state_prefix_of(prefixes_, name);
  const std::string bare = name.substr(prefix.size());
  const bool is_state = !prefix.empty() && !is_left_out;
  if (is_state && take_matches(number, bare, set_of_prefix(prefix))) return;
  if (fates_[number] == Fate::kSkipped) return;
  const bool is_identity = !is_left_out && is_to_be_identity(name);
  if (!is_left_out && !is_identity && !is_dropped(name, bare)) {
    keep(number, bare, prefix.empty() ? 0 : set_of_prefix(prefix));
    return;
  }
  if (is_identity) out_.identities.push_back(number);
  fates_[number] = Fate::kDropped;
  out_.dropped.push_back(number);
}

/// Under the name that it has, if the map says so and no rule makes a tensor of that name.
void MappingWork::keep(std::uint32_t number, const std::string& bare, std::size_t set) {
  if (!map_.rest || matches_any(map_.rest_except, bare) || other_side_.takes(bare)) return;
  Application application{set, *map_.rest, {{0, bare}}, 0};
  const bool is_inverse = direction_ == Direction::kInverse;
  if (is_inverse || rules_[*map_.rest].reads_one) application.tensor = number;
  applications_.push_back(std::move(application));
  fates_[number] = Fate::kTaken;
  out_.uses.push_back({number, map_.rules[*map_.rest].place});
}

bool MappingWork::take_matches(std::uint32_t number, const std::string& name, std::size_t set) {
  std::vector<std::size_t> takers;
  const std::size_t before = applications_.size();
  const Pattern* first = nullptr;
  for (const PatternIndex::Match& match : index_.matches(name)) {
    // With [rest], rules have an order: one behind another takes what that one leaves.
    const bool is_of_first = first != nullptr && direction_ == Direction::kForward &&
                             match.entry->pattern->text() == first->text();
    if (map_.rest && first != nullptr && !is_of_first) continue;
    if (!add_applications(number, match, set)) continue;
    first = match.entry->pattern;
    if (std::find(takers.begin(), takers.end(), match.entry->rule) == takers.end()) {
      takers.push_back(match.entry->rule);
    }
  }
  if (takers.empty()) return false;
  if (fates_[number] == Fate::kUnknown) fates_[number] = Fate::kTaken;
  for (const std::size_t rule : takers) out_.uses.push_back({number, map_.rules[rule].place});
  if (direction_ == Direction::kInverse && takers.size() > 1) {
    problems_.add(ProblemKind::kTwoRules, map_.rules[takers[1]].place,
                  printable(tensors_[number].name) + ": two rules make it, the other one in line " +
                      std::to_string(map_.rules[takers[0]].place.line));
    const std::size_t kept = std::min(before, applications_.size());
    const auto begin = applications_.begin() + static_cast<std::ptrdiff_t>(kept);
    applications_.erase(std::remove_if(begin, applications_.end(),
                                       [&](const Application& application) {
                                         return application.rule != takers[0];
                                       }),
                        applications_.end());
  }
  return true;
}

/// @return whether the rule holds for the name.
bool MappingWork::add_applications(std::uint32_t number, const PatternIndex::Match& match,
                                   std::size_t set) {
  const MapRule& rule = map_.rules[match.entry->rule];
  Application application{set, match.entry->rule, {}, 0};
  application.values.resize(rule.captures.size());
  const bool is_inverse = direction_ == Direction::kInverse;
  if (is_inverse || rules_[match.entry->rule].reads_one) application.tensor = number;
  const std::vector<std::size_t>& captures =
      is_inverse ? rules_[match.entry->rule].to_captures : rule.from_captures[match.entry->source];
  for (std::size_t slot = 0; slot < captures.size(); ++slot) {
    application.values[captures[slot]] = match.values[slot];
  }
  try {
    if (rules_[match.entry->rule].undecided) {
      add_undecided(number, match.entry->rule);
      return false;
    }
    if (!in_range(application, captures)) return false;
    if (is_inverse) return add_application(std::move(application));
    for (const std::size_t i : captures) {
      if (rule.captures[i].side == CaptureSide::kFrom) application.values[i] = {};
    }
    // What it belongs to, another source of the rule tells.
    if (!rules_[match.entry->rule].tells_all[match.entry->source]) return true;
    return add_spread(std::move(application), 0);
  } catch (const Error& error) {
    fail(ProblemKind::kVariable, application,
         printable(tensors_[number].name) + ": " + error.message());
    rules_[application.rule].is_broken = true;
    fates_[number] = Fate::kSkipped;
    // What is too much already is not to be worked on.
    if (error.kind() == ErrorKind::kUnsupported) {
      std::erase_if(applications_,
                    [&](const Application& other) { return other.rule == application.rule; });
    }
    return true;
  }
}

/// One application for each value of the captures from `capture` on that spread.
bool MappingWork::add_spread(Application application, std::size_t capture) {
  const MapRule& rule = map_.rules[application.rule];
  while (capture < rule.to_captures && rule.captures[capture].side != CaptureSide::kTo) ++capture;
  if (capture == rule.to_captures) return add_application(std::move(application));
  Scope scope(variables_);
  bind_captures(scope, application);
  const std::int64_t range = evaluate_range(rule.captures[capture], scope);
  bool holds = false;
  for (std::int64_t value = 0; value < range; ++value) {
    application.values[capture].number = value;
    holds = add_spread(application, capture + 1) || holds;
  }
  return holds;
}

bool MappingWork::add_application(Application application) {
  if (!holds(application) || !to_name(application)) return false;
  // Sources that are joined give the same application one after the other.
  if (!applications_.empty() && applications_.back() == application) return true;
  if (applications_.size() == kMostApplications) {
    throw Error(ErrorKind::kUnsupported,
                "the map would make more than " + std::to_string(kMostApplications) + " tensors");
  }
  applications_.push_back(std::move(application));
  return true;
}

std::size_t MappingWork::set_of_prefix(const std::string& prefix) {
  for (std::size_t i = 1; i < sets_.size(); ++i) {
    if (sets_[i].source_prefix == prefix) return i;
  }
  sets_.push_back({prefix, prefixes_.at(prefix)});
  return sets_.size() - 1;
}

bool MappingWork::is_dropped(const std::string& name, const std::string& bare) const {
  const NameGlobs& globs = direction_ == Direction::kForward ? map_.drop_from : map_.drop_to;
  return matches_any(globs, name) || matches_any(globs, bare);
}

bool MappingWork::is_to_be_identity(const std::string& name) const {
  return matches_any(direction_ == Direction::kForward ? map_.identity_from : map_.identity_to,
                     name);
}

void MappingWork::add_undecided(std::uint32_t number, std::size_t rule) {
  const UnknownVariable& unknown = *rules_[rule].undecided;
  Undecided& undecided =
      undecided_.try_emplace(unknown.name(), Undecided{rule, unknown.message(), {}}).first->second;
  undecided.tensors.insert(number);
  fates_[number] = Fate::kSkipped;
}

/// One line for each variable: it may be that of a thousand tensors.
void MappingWork::report_undecided() {
  for (const auto& [name, undecided] : undecided_) {
    const std::size_t more = undecided.tensors.size() - 1;
    const bool is_setting = variables_.settings.contains(name);
    problems_.add(is_setting ? ProblemKind::kSetting : ProblemKind::kVariable,
                  map_.rules[undecided.rule].place,
                  printable(tensors_[*undecided.tensors.begin()].name) +
                      (more == 0 ? "" : " and " + counted(more, "more tensor")) + ": " +
                      undecided.message);
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
