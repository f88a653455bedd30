// SPDX-License-Identifier: Apache-2.0
/// Which rules take which tensors, and for which captures.
#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {
namespace {

/// Far more than any model has tensors.
constexpr std::size_t kMostApplications = std::size_t{1} << 20U;

}  // namespace

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
  const std::string_view prefix = state_prefix_of(prefixes_, name);
  const std::string_view behind = std::string_view(name).substr(prefix.size());
  const bool is_state = !prefix.empty() && !is_left_out;
  if (is_state && take_matches(number, behind, set_of_prefix(prefix))) return;
  if (fates_[number] == Fate::kSkipped) return;
  const std::string bare(behind);
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
  if (is_inverse || map_.rules[*map_.rest].reads_one()) application.tensor = number;
  applications_.push_back(std::move(application));
  fates_[number] = Fate::kTaken;
  out_.uses.push_back({number, map_.rules[*map_.rest].place});
}

bool MappingWork::take_matches(std::uint32_t number, std::string_view name, std::size_t set) {
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
  if (is_inverse || rule.reads_one()) application.tensor = number;
  const std::vector<std::size_t>& captures =
      rule.captures_read(direction_ == Direction::kForward, match.entry->source);
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

std::size_t MappingWork::set_of_prefix(std::string_view prefix) {
  for (std::size_t i = 1; i < sets_.size(); ++i) {
    if (sets_[i].source_prefix == prefix) return i;
  }
  const auto& [source_prefix, target_prefix] = *prefixes_.find(std::string(prefix));
  sets_.push_back({source_prefix, target_prefix});
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

}  // namespace reshardfs::modelmap
