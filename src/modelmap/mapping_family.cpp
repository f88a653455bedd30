// SPDX-License-Identifier: Apache-2.0
/// How many layers and experts there are, and what of them is missing.
#include <algorithm>
#include <utility>

#include "modelmap/family_check.h"

namespace reshardfs::modelmap {

void FamilyCheck::run() {
  find_sites();
  if (!has_weights_) return;  // states of an optimizer need no weights beside them
  note_numbers();
  for (auto& [key, count] : counts_) check_count(key, count);
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (is_checked(i)) check_rule(i);
  }
  check_choices();
}

bool FamilyCheck::is_checked(std::size_t number) const {
  const RuleWork& work = work_.rules_[number];
  return work.is_active && !work.is_broken && !work.undecided;
}

std::optional<std::size_t> FamilyCheck::layer_slot(std::size_t number) const {
  const std::vector<std::size_t>& shared = rules_[number].shared;
  std::optional<std::size_t> first;
  for (std::size_t slot = 0; slot < shared.size(); ++slot) {
    const RuleCapture& capture = rule(number).captures[shared[slot]];
    if (capture.is_rest) return slot;
    if (!capture.is_word && !first) first = slot;
  }
  return first;
}

FamilyCheck::PartKey FamilyCheck::part_key(std::size_t number, const Site& site) const {
  const auto slot = layer_slot(number);
  return {rule(number).block, slot ? site[*slot].number : kNoLayer};
}

void FamilyCheck::find_sites() {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    for (std::size_t c = 0; c < rule(i).to_captures; ++c) {
      if (rule(i).captures[c].side == CaptureSide::kBoth) rules_[i].shared.push_back(c);
    }
  }
  bool any_numbered = false;
  for (const Application& application : work_.applications_) {
    if (!work_.sets_[application.set].is_weights()) continue;
    has_weights_ = true;
    Rule& own = rules_[application.rule];
    Site site;
    for (const std::size_t capture : own.shared) site.push_back(application.values[capture]);
    any_numbered = any_numbered || !rule(application.rule).captures.empty();
    const MapRule& of = rule(application.rule);
    if (of.block > 0) blocks_.insert(of.block);
    if (!of.part.empty()) parts_[part_key(application.rule, site)].insert(of.part);
    own.sites.insert(std::move(site));
  }
  // A number of steps beside the states of an optimizer is no weight.
  if (work_.sets_.size() > 1 && !any_numbered) has_weights_ = false;
}

CountKey FamilyCheck::key_of(std::size_t number, const std::string& capture) const {
  const bool is_declared = work_.map_.family.counts.contains(capture);
  if (is_declared) return {capture, 0, 0};
  return rule(number).block > 0 ? CountKey{capture, rule(number).block, 0}
                                : CountKey{capture, 0, number + 1};
}

void FamilyCheck::note_numbers() {
  for (std::size_t i = 0; i < work_.tensors_.size(); ++i) {
    const auto fate = work_.fates_[i];
    if (fate == MappingWork::Fate::kHidden || fate == MappingWork::Fate::kDropped) continue;
    for (const PatternIndex::Match& match : work_.index_.matches(work_.tensors_[i].name)) {
      note_match(work_.tensors_[i].name, match);
    }
  }
}

void FamilyCheck::note_match(const std::string& name, const PatternIndex::Match& match) {
  const std::size_t number = match.entry->rule;
  const MapRule& of = rule(number);
  const std::vector<std::size_t>& captures =
      of.captures_read(work_.direction_ == Direction::kForward, match.entry->source);
  if (!condition_holds(number, match, captures)) return;
  for (std::size_t slot = 0; slot < captures.size(); ++slot) {
    const RuleCapture& capture = of.captures[captures[slot]];
    if (capture.is_word) continue;
    const auto [found, is_new] = counts_.try_emplace(key_of(number, capture.name));
    Count& count = found->second;
    if (is_new) {
      count.place = of.place;
      state_count(work_.map_, work_.variables_, capture.name, capture.range.get(), count);
    }
    const std::int64_t value = match.values[slot].number;
    if (count.seen.empty() || value > *count.seen.rbegin()) count.example = name;
    count.seen.insert(value);
  }
}

bool FamilyCheck::condition_holds(std::size_t number, const PatternIndex::Match& match,
                                  const std::vector<std::size_t>& captures) const {
  if (!work_.rules_[number].has_capture_condition) return true;
  Application application{0, number, {}, 0};
  application.values.resize(rule(number).captures.size());
  std::size_t known = 0;
  for (std::size_t slot = 0; slot < captures.size(); ++slot) {
    application.values[captures[slot]] = match.values[slot];
    if (captures[slot] < rule(number).to_captures) ++known;
  }
  try {
    return known == rule(number).to_captures && work_.holds(application);
  } catch (const Error&) {
    return false;  // it has been told already
  }
}

void FamilyCheck::check_count(const CountKey& key, const Count& count) {
  std::vector<std::int64_t> gaps;
  // Without a declared count, only numbers between others are known to be missing.
  const std::int64_t first = count.is_declared ? 0 : *count.seen.begin();
  const std::int64_t end = count.is_declared ? count.expected() : count.named();
  if (end - first > kMaxRange) return;
  for (std::int64_t i = first; i < end; ++i) {
    if (!count.seen.contains(i)) gaps.push_back(i);
  }
  const bool is_counted = count.is_declared || key.block > 0;
  const bool is_too_few = is_counted && !gaps.empty() && needs_any(key, gaps);
  const bool is_too_many = count.stated && count.named() > *count.stated;
  if (is_too_few) missing_[key] = {gaps.begin(), gaps.end()};
  if (!is_too_few && !is_too_many) return;
  std::string message = printable(count.example) + ": ";
  if (count.stated && count.named() != *count.stated) {
    message += count.origin + " is " + std::to_string(*count.stated) +
               ", but the names of the tensors have " + std::to_string(count.named()) + " of {" +
               key.capture + "} (0 to " + std::to_string(count.named() - 1) + ")";
  } else {
    message += "the names of the tensors have " + std::to_string(count.named()) + " of {" +
               key.capture + "}";
  }
  if (!gaps.empty()) {
    message += ", and " + key.capture + " " + numbers_text(gaps) + " " +
               (gaps.size() == 1 ? "is" : "are") + " missing in the source";
  }
  work_.problems_.add(ProblemKind::kFamily, count.place, message);
}

bool FamilyCheck::needs_any(const CountKey& key, const std::vector<std::int64_t>& gaps) {
  if (!work_.options_.wants) return true;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!is_checked(i) || rules_[i].sites.empty()) continue;
    for (std::size_t slot = 0; slot < rules_[i].shared.size(); ++slot) {
      const RuleCapture& capture = rule(i).captures[rules_[i].shared[slot]];
      if (capture.is_word || key_of(i, capture.name) != key) continue;
      for (const std::int64_t gap : gaps) {
        Site site = *rules_[i].sites.begin();
        site[slot].number = gap;
        if (is_wanted(i, site)) return true;
      }
    }
  }
  return false;
}

void FamilyCheck::check_rule(std::size_t number) {
  const bool is_of_part = !rule(number).part.empty() && !rule(number).own_optional;
  if (rules_[number].sites.empty() && !is_of_part) return check_absent(number);
  if (layer_slot(number) && !is_declared(number)) return;
  std::map<std::vector<std::string>, std::vector<Site>> missing;  // by words
  for (const Site& site : expected_sites(number)) {
    if (has_site(number, site) || !needs(number, site)) continue;
    std::vector<std::string> words;
    for (const CaptureValue& value : site) words.push_back(value.word);
    missing[words].push_back(site);
  }
  for (const auto& [words, sites] : missing) tell(number, sites);
}

bool FamilyCheck::needs(std::size_t number, const Site& site) {
  const MapRule& of = rule(number);
  try {
    if (!work_.holds(application_of(number, site))) return false;
  } catch (const Error&) {
    return false;
  }
  if (!of.part.empty()) {
    const auto parts = parts_.find(part_key(number, site));
    if (parts == parts_.end() || !parts->second.contains(of.part)) return false;
  }
  return is_wanted(number, site);
}

void FamilyCheck::tell(std::size_t number, const std::vector<Site>& sites) {
  const std::string name = missing_name(number, sites[0]);
  const std::vector<std::string> made = made_of(number, sites[0]);
  std::string message = printable(name) + ": missing in the source";
  if (!made.empty()) message += " (" + printable(made[0]) + " needs it)";
  if (const auto slot = layer_slot(number)) {
    const std::string& capture = rule(number).captures[rules_[number].shared[*slot]].name;
    std::set<std::int64_t> layers;
    for (const Site& site : sites) layers.insert(site[*slot].number);
    const auto count = counts_.find(key_of(number, capture));
    message += "; of " + std::to_string(count->second.expected()) + " of {" + capture + "}, " +
               numbers_text({layers.begin(), layers.end()}) +
               (layers.size() == 1 ? " lacks it" : " lack it");
  }
  work_.problems_.add(ProblemKind::kMissing, rule(number).place, message);
}

void FamilyCheck::check_absent(std::size_t number) {
  const MapRule& of = rule(number);
  RuleWork& work = work_.rules_[number];
  // Parts may be in no layer, and all of an optional block may be missing.
  if (!of.part.empty()) return;
  if (of.optional && (of.own_optional || !blocks_.contains(of.block))) return;
  if (!is_asked_for(number)) {
    work.is_used = true;
    return;
  }
  const bool is_told = !work.is_used && !of.optional;
  if (is_told) return;  // by check_rules_used()
  const Pattern& pattern = work_.direction_ == Direction::kForward ? of.from[0] : of.to;
  work_.problems_.add(ProblemKind::kRuleUnused, of.place,
                      printable(pattern.text()) + ": no tensor of the source is for this rule");
}

bool FamilyCheck::is_asked_for(std::size_t number) {
  if (!work_.options_.wants) return true;
  const std::vector<Site> sites = expected_sites(number);
  return sites.empty() || std::any_of(sites.begin(), sites.end(),
                                      [&](const Site& site) { return is_wanted(number, site); });
}

void MappingWork::check_family() {
  if (!options_.checks_family || options_.shapes_alone) return;
  FamilyCheck(*this).run();
}

}  // namespace reshardfs::modelmap
