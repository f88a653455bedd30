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

/// Whether the captures that a name has given are within their ranges.
bool MappingWork::in_range(const Application& application,
                           const std::vector<std::size_t>& captures) const {
  const MapRule& rule = map_.rules[application.rule];
  Scope scope(variables_);
  bool is_bound = false;
  for (const std::size_t i : captures) {
    if (!rule.captures[i].range || rule.captures[i].is_word) continue;
    if (!is_bound) bind_captures(scope, application);
    is_bound = true;
    if (application.values[i].number >= evaluate_range(rule.captures[i], scope)) return false;
  }
  return true;
}

std::string MappingWork::from_name(const Application& application, const RuleSources& sources,
                                   std::size_t source) const {
  const MapRule& rule = map_.rules[application.rule];
  const std::size_t pattern = sources.pattern_of(source);
  std::vector<CaptureValue> values = application.values;
  sources.set_values(source, values);
  std::vector<CaptureValue> by_slot;
  for (const std::size_t capture : rule.from_captures[pattern]) by_slot.push_back(values[capture]);
  const auto name =
      rule.from[pattern].fill(by_slot, rules_[application.rule].from_offsets[pattern]);
  if (name) return *name;
  throw Error(ErrorKind::kBadInput,
              printable(rule.from[pattern].text()) + ": a number in the name would be negative");
}

std::optional<std::string> MappingWork::to_name(const Application& application) const {
  return map_.rules[application.rule].to.fill(application.values,
                                              rules_[application.rule].to_offsets);
}

std::int64_t MappingWork::to_parts_of(const Application& application) const {
  if (!options_.to_parts) return 1;
  const std::string name = *to_name(application);
  const std::optional<PartCount> count = options_.to_parts(name);
  if (!count) return 1;
  if (!count->is_unclear) return count->parts;
  throw Error(ErrorKind::kBadInput,
              printable(name) +
                  ": the strategy cuts several dimensions, or one unevenly, so that "
                  "'tp' is not clear; give it with --map-var tp=N");
}

std::int64_t MappingWork::from_parts_of(const Application& application,
                                        const RuleSources* sources) const {
  if (!options_.from_parts) return 1;
  if (sources == nullptr) {
    throw Error(ErrorKind::kBadInput,
                "a range cannot depend on 'from_tp'; give --map-var from_tp=N");
  }
  std::optional<std::int64_t> parts;
  for (std::size_t source = 0; source < sources->size(); ++source) {
    const std::string name = from_name(application, *sources, source);
    const PartCount count = options_.from_parts(name).value_or(PartCount{});
    if (!count.is_unclear && count.parts == parts.value_or(count.parts)) {
      parts = count.parts;
      continue;
    }
    throw Error(ErrorKind::kBadInput,
                printable(name) +
                    ": the strategy cuts it along several dimensions, unevenly, or "
                    "not as the other sources of the rule, so that 'from_tp' is not "
                    "clear; give it with --map-var from_tp=N");
  }
  return parts.value_or(1);
}

/// What a form depends on beside shapes.
std::vector<std::int64_t> MappingWork::form_key(const Application& application,
                                                const Scope& scope) const {
  const RuleWork& work = rules_[application.rule];
  std::vector<std::int64_t> key;
  for (const std::size_t capture : work.form_captures) {
    key.push_back(application.values[capture].number);
  }
  for (const std::string& parts : work.form_parts) key.push_back(scope.value(parts));
  return key;
}

std::optional<std::uint32_t> MappingWork::tensor_named(const std::string& name) const {
  const auto found = names_.find(name);
  if (found == names_.end() || fates_[found->second] == Fate::kHidden) return std::nullopt;
  return found->second;
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

}  // namespace reshardfs::modelmap
