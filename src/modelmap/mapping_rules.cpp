// SPDX-License-Identifier: Apache-2.0
/// What both directions need of a rule for one set of captures.
#include <algorithm>
#include <utility>

#include "base/cast.h"
#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {

void ProblemList::add(ProblemKind kind, const MapPlace& place, const std::string& message) {
  if (!known_.emplace(message, place.line).second) return;
  if (++count_ <= kMost) problems_[kind].push_back({message, *place.file, place.line});
}

void ProblemList::add(ProblemKind kind, const std::string& file, const std::string& message) {
  add(kind, {std::make_shared<const std::string>(file), 0}, message);
}

std::vector<MapProblem> ProblemList::take() {
  std::vector<MapProblem> all;
  for (auto& [kind, problems] : problems_) {
    std::move(problems.begin(), problems.end(), std::back_inserter(all));
  }
  if (count_ > kMost) {
    all.push_back({"and " + std::to_string(count_ - kMost) + " more problems", all[0].file, 0});
  }
  return all;
}

Error MapProblem::error() const {
  const std::string where = line == 0 ? "" : "line " + std::to_string(line) + ": ";
  Error error(ErrorKind::kBadInput, where + message);
  error.in_file(file);
  return error;
}

void MappingWork::fail(ProblemKind kind, const Application& application,
                       const std::string& message) {
  problems_.add(kind, map_.rules[application.rule].place, message);
}

void MappingWork::fail(const Application& application, const Error& error) {
  const bool is_unknown = dynamic_cast<const UnknownVariable*>(&error) != nullptr;
  fail(is_unknown ? ProblemKind::kVariable : ProblemKind::kShape, application, error.message());
}

void MappingWork::bind_captures(Scope& scope, const Application& application) const {
  const MapRule& rule = map_.rules[application.rule];
  for (std::size_t i = 0; i < rule.to_captures; ++i) {
    if (rule.captures[i].is_word) {
      scope.bind_word(rule.captures[i].name);
    } else {
      scope.bind(rule.captures[i].name, application.values[i].number);
    }
  }
}

bool MappingWork::holds(const Application& application) const {
  if (!rules_[application.rule].has_capture_condition) return true;
  Scope scope(variables_);
  bind_captures(scope, application);
  const Conditions& conditions = map_.rules[application.rule].when;
  return std::all_of(conditions.begin(), conditions.end(),
                     [&](const auto& condition) { return scope.evaluate(*condition) != 0; });
}

/// Whether the range does not depend on captures of the rule.
bool MappingWork::has_fixed_range(const MapRule& rule, const RuleCapture& capture) const {
  const std::set<std::string> names = variables_.with_dependencies(capture.range->names());
  return std::none_of(rule.captures.begin(), rule.captures.end(),
                      [&](const RuleCapture& other) { return names.contains(other.name); });
}

/// Whether the captures that a name has given are within their ranges.
bool MappingWork::in_range(const Application& application,
                           const std::vector<std::size_t>& captures) {
  const MapRule& rule = map_.rules[application.rule];
  std::vector<KnownRange>& ranges = rules_[application.rule].ranges;
  ranges.resize(rule.captures.size());
  Scope scope(variables_);
  bool is_bound = false;
  for (const std::size_t i : captures) {
    if (!rule.captures[i].range || rule.captures[i].is_word) continue;
    KnownRange& known = ranges[i];
    std::optional<std::int64_t> range = known.value;
    if (!range) {
      if (!is_bound) bind_captures(scope, application);
      is_bound = true;
      range = evaluate_range(rule.captures[i], scope);
      if (!known.is_fixed) known.is_fixed = has_fixed_range(rule, rule.captures[i]);
      if (*known.is_fixed) known.value = range;
    }
    if (application.values[i].number >= *range) return false;
  }
  return true;
}

/// Where nothing is collected, they are those of all tensors of the rule.
RuleSourcesPtr MappingWork::sources_of(const Application& application, const Scope& scope) {
  RuleSourcesPtr& known = rules_[application.rule].sources;
  if (known) return known;
  const MapRule& rule = map_.rules[application.rule];
  auto sources = std::make_shared<const RuleSources>(rule, scope);
  return rule.collects() ? sources : known = std::move(sources);
}

std::string MappingWork::from_name(const Application& application, const RuleSources& sources,
                                   std::size_t source) const {
  const MapRule& rule = map_.rules[application.rule];
  const std::size_t pattern = sources.pattern_of(source);
  std::vector<CaptureValue> collected;
  const bool collects = !sources.collected(pattern).empty();
  if (collects) {
    collected = application.values;
    sources.set_values(source, collected);
  }
  const auto name = rule.from[pattern].fill(collects ? collected : application.values,
                                            rules_[application.rule].from_numberings[pattern],
                                            &rule.from_captures[pattern]);
  if (name) return *name;
  throw Error(ErrorKind::kBadInput,
              printable(rule.from[pattern].text()) + ": a number in the name would be negative");
}

std::optional<std::string> MappingWork::to_name(const Application& application) const {
  return map_.rules[application.rule].to.fill(application.values,
                                              rules_[application.rule].to_numberings);
}

/// What is stated of a state counts more than what is stated of its weight, which the side need not
/// have.
Known<std::int64_t> MappingWork::parts_of(const PartsOf& parts, const std::string& prefix,
                                          const std::string& name) const {
  const Known<std::int64_t> own = parts(prefix + name);
  if (own || prefix.empty()) return own;
  const Known<std::int64_t> weight = parts(name);
  return weight ? weight : own;
}

Known<std::int64_t> MappingWork::to_parts_of(const Application& application) const {
  if (!options_.to_parts) {
    return Known<std::int64_t>::unknown("nothing tells how '" + printable(map_.to_side) +
                                        "' cuts its tensors");
  }
  const TensorSet& set = sets_[application.set];
  const bool forward = direction_ == Direction::kForward;
  return parts_of(options_.to_parts, forward ? set.target_prefix : set.source_prefix,
                  *to_name(application));
}

Known<std::int64_t> MappingWork::from_parts_of(const Application& application,
                                               const RuleSources* sources) const {
  using Value = Known<std::int64_t>;
  if (!options_.from_parts) {
    return Value::unknown("nothing tells how '" + printable(map_.from_side) + "' cuts its tensors");
  }
  if (sources == nullptr) return Value::unknown("a range cannot depend on it");
  const TensorSet& set = sets_[application.set];
  const bool forward = direction_ == Direction::kForward;
  Value all;
  for (std::size_t source = 0; source < sources->size(); ++source) {
    const std::string name = from_name(application, *sources, source);
    const Value parts =
        parts_of(options_.from_parts, forward ? set.source_prefix : set.target_prefix, name);
    if (!parts) return parts;
    if (all && *all != *parts) {
      return Value::unknown("'" + printable(name) +
                            "' is not cut as the other tensors of the rule");
    }
    all = parts;
  }
  return all;
}

/// The names in the rule, with the values that they have for the target.
void MappingWork::explain(const std::string& target, const Application& application,
                          const Scope& scope) {
  const MapRule& rule = map_.rules[application.rule];
  std::vector<std::string> names = names_in(*rule.body);
  const auto add = [&](const Expression& expression) {
    names.insert(names.end(), expression.names().begin(), expression.names().end());
  };
  for (const auto& condition : rule.when) add(*condition);
  for (const RuleCapture& capture : rule.captures) {
    if (capture.range) add(*capture.range);
    if (!capture.is_word) names.push_back(capture.name);
  }
  std::vector<VariableValue>& values = out_.origins[target];
  for (const std::string& name : names) {
    const auto has_name = [&](const VariableValue& value) { return value.name == name; };
    if (std::any_of(values.begin(), values.end(), has_name)) continue;
    Known<std::int64_t> value = scope.known(name);
    // Those that are joined have no single value.
    if (!value) continue;
    if (value.origin().empty()) value = Known<std::int64_t>::derived(*value, "the tensor's name");
    values.push_back({name, std::move(value)});
  }
}

/// What a form depends on beside shapes.
std::vector<std::int64_t> MappingWork::form_key(const Application& application,
                                                const Scope& scope) const {
  const RuleWork& work = rules_[application.rule];
  std::vector<std::int64_t> key;
  for (const std::size_t capture : work.form_captures) {
    key.push_back(application.values[capture].number);
  }
  // A form that needs one that is unknown is not made.
  for (const std::string& parts : work.form_parts) {
    const Known<std::int64_t> value = scope.known(parts);
    key.push_back(value ? *value : -1);
  }
  return key;
}

/// The assertions of a rule. What mentions an unknown name that the rule itself needs is left out:
/// shapes may still bind it, and where they do not, the rule says what is unknown.
void MappingWork::check_required(const Application& application, const Scope& scope,
                                 const std::string& tensor) const {
  if (options_.shapes_alone) return;
  const MapRule& rule = map_.rules[application.rule];
  if (rule.require.empty()) return;
  const std::vector<std::string> names = names_in(*rule.body);
  check_requirements(rule.require, scope, tensor, {names.begin(), names.end()});
}

std::optional<std::uint32_t> MappingWork::tensor_named(const std::string& name) const {
  const std::optional<std::uint32_t> found = names_.find(name);
  if (!found || fates_[*found] == Fate::kHidden) return std::nullopt;
  return found;
}

std::optional<DType> MappingWork::target_dtype(const Application& application,
                                               const std::string& target, DType source) {
  const auto& cast = map_.rules[application.rule].body->cast;
  if (!cast || !sets_[application.set].is_weights()) return source;
  const bool forward = direction_ == Direction::kForward;
  const DType from = forward ? cast->first : cast->second;
  if (source == from) return forward ? cast->second : cast->first;
  fail(ProblemKind::kType, application,
       printable(target) + ": cast from " + std::string(mindspore_name(from)) + ", the source is " +
           std::string(mindspore_name(source)));
  return std::nullopt;
}

/// Moments are those of gradients, which a constant does not change.
float MappingWork::added_to(const Application& application, const std::string& target,
                            DType dtype) {
  const float added = map_.rules[application.rule].body->added;
  if (added == 0) return 0;
  const std::string& prefix = sets_[application.set].source_prefix;
  const auto ends_with = [&](std::string_view state) {
    return prefix == state || prefix.ends_with("." + std::string(state));
  };
  if (ends_with("exp_avg.") || ends_with("exp_avg_sq.")) return 0;
  if (!prefix.empty() && !ends_with("param.") && !ends_with("fp32_param.")) {
    fail(ProblemKind::kType, application,
         printable(target) +
             ": the rule adds a constant to the weight, and nothing states whether " + "states '" +
             printable(prefix) + "*' get it, too");
  } else if (!can_cast(dtype, DType::kFloat32)) {
    fail(ProblemKind::kType, application,
         printable(target) + ": the rule adds a constant, which is not possible for " +
             std::string(mindspore_name(dtype)));
  }
  return direction_ == Direction::kForward ? added : -added;
}

}  // namespace reshardfs::modelmap
