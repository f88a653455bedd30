// SPDX-License-Identifier: Apache-2.0
/// Which tensors a rule has if nothing is missing.
#include <algorithm>
#include <utility>

#include "modelmap/family_check.h"

namespace reshardfs::modelmap {

Application FamilyCheck::application_of(std::size_t number, const Site& site) const {
  Application application{0, number, {}, 0};
  application.values.resize(rule(number).captures.size());
  for (std::size_t slot = 0; slot < site.size(); ++slot) {
    application.values[rules_[number].shared[slot]] = site[slot];
  }
  return application;
}

std::vector<std::string> FamilyCheck::made_of(std::size_t number, const Site& site) const {
  const Application application = application_of(number, site);
  std::vector<std::string> names;
  try {
    if (work_.direction_ == Direction::kForward) return spread_names(application, 0);
    Scope scope(work_.variables_);
    work_.bind_captures(scope, application);
    const RuleSourcesPtr sources = work_.sources_of(application, scope);
    for (std::size_t i = 0; i < sources->size(); ++i) {
      names.push_back(work_.from_name(application, *sources, i));
    }
  } catch (const Error&) {
    return {};
  }
  return names;
}

std::vector<std::string> FamilyCheck::spread_names(Application application,
                                                   std::size_t capture) const {
  const MapRule& of = rule(application.rule);
  while (capture < of.to_captures && of.captures[capture].side != CaptureSide::kTo) ++capture;
  if (capture == of.to_captures) {
    const auto name = work_.to_name(application);
    return name ? std::vector<std::string>{*name} : std::vector<std::string>();
  }
  Scope scope(work_.variables_);
  work_.bind_captures(scope, application);
  const std::int64_t range = evaluate_range(of.captures[capture], scope);
  std::vector<std::string> names;
  for (std::int64_t value = 0; value < range; ++value) {
    application.values[capture].number = value;
    const auto more = spread_names(application, capture + 1);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

std::string FamilyCheck::missing_name(std::size_t number, const Site& site) const {
  const Application application = application_of(number, site);
  const bool is_inverse = work_.direction_ == Direction::kInverse;
  const MapRule& of = rule(number);
  try {
    if (is_inverse) return work_.to_name(application).value_or(of.to.text());
    Scope scope(work_.variables_);
    work_.bind_captures(scope, application);
    const RuleSourcesPtr sources = work_.sources_of(application, scope);
    if (sources->size() > 0) return work_.from_name(application, *sources, 0);
  } catch (const Error&) {
    // An unknown range is reported where the rule is applied.
  }
  return is_inverse ? of.to.text() : of.from[0].text();
}

bool FamilyCheck::is_wanted(std::size_t number, const Site& site) {
  if (!work_.options_.wants) return true;
  const std::vector<std::string> names = made_of(number, site);
  const bool is_wanted =
      names.empty() || std::any_of(names.begin(), names.end(),
                                   [&](const std::string& name) { return work_.wants(name); });
  if (!is_wanted) work_.excuse(names);
  return is_wanted;
}

std::vector<FamilyCheck::Site> FamilyCheck::expected_sites(std::size_t number) const {
  std::vector<Site> sites;
  for (const Site& words : word_sites(number)) sites.push_back(words);
  for (std::size_t slot = 0; slot < rules_[number].shared.size(); ++slot) {
    const RuleCapture& capture = rule(number).captures[rules_[number].shared[slot]];
    if (capture.is_word) continue;
    const std::vector<CaptureValue> values = numbers_of(number, capture.name);
    if (sites.size() * values.size() > kMostSites) return {};
    std::vector<Site> more;
    for (const Site& site : sites) {
      for (const CaptureValue& value : values) {
        more.push_back(site);
        more.back()[slot] = value;
      }
    }
    sites = std::move(more);
  }
  return sites;
}

std::vector<CaptureValue> FamilyCheck::numbers_of(std::size_t number,
                                                  const std::string& capture) const {
  const CountKey key = key_of(number, capture);
  const auto count = counts_.find(key);
  if (count == counts_.end()) return {};
  const auto missing = missing_.find(key);
  const std::int64_t end = std::min(count->second.expected(), kMaxRange);
  std::vector<CaptureValue> values;
  for (std::int64_t i = 0; i < end; ++i) {
    // What is missing altogether has been told.
    if (missing != missing_.end() && missing->second.contains(i)) continue;
    if (!count->second.seen.contains(i)) continue;
    values.push_back({i, {}});
  }
  return values;
}

std::set<FamilyCheck::Site> FamilyCheck::word_sites(std::size_t number) const {
  std::set<Site> words;
  // Layers may have different texts: one stands for all.
  if (takes_any_text(number) && !rules_[number].sites.empty()) {
    Site site = *rules_[number].sites.begin();
    for (CaptureValue& value : site) value.number = 0;
    return {std::move(site)};
  }
  for (Site site : rules_[number].sites) {
    for (CaptureValue& value : site) value.number = 0;
    words.insert(std::move(site));
  }
  const bool is_of_part = !rule(number).part.empty() && !rule(number).own_optional;
  if (is_of_part || !rule(number).optional_words.empty() || words.empty()) {
    add_required_words(number, words);
  }
  return words;
}

void FamilyCheck::add_required_words(std::size_t number, std::set<Site>& words) const {
  std::vector<Site> all = {Site(rules_[number].shared.size())};
  for (std::size_t slot = 0; slot < rules_[number].shared.size(); ++slot) {
    const RuleCapture& shared = rule(number).captures[rules_[number].shared[slot]];
    if (!shared.is_word) continue;
    const auto& captures = rule(number).to.captures();
    const auto capture = std::find_if(captures.begin(), captures.end(),
                                      [&](const auto& one) { return one.name == shared.name; });
    std::vector<Site> more;
    for (const Site& site : all) {
      for (const std::string& word : Pattern::words_of(*capture)) {
        if (is_optional(number, word)) continue;
        more.push_back(site);
        more.back()[slot].word = word;
      }
    }
    all = std::move(more);
    if (all.size() > kMostSites) return;
  }
  words.insert(all.begin(), all.end());
}

bool FamilyCheck::takes_any_text(std::size_t number) const {
  const auto& captures = rule(number).to.captures();
  return std::any_of(captures.begin(), captures.end(),
                     [](const Pattern::Capture& capture) { return capture.is_any_text; });
}

bool FamilyCheck::has_site(std::size_t number, const Site& site) const {
  const std::set<Site>& sites = rules_[number].sites;
  if (!takes_any_text(number)) return sites.contains(site);
  const auto has_numbers = [&](const Site& other) {
    return std::equal(site.begin(), site.end(), other.begin(),
                      [](const auto& a, const auto& b) { return a.number == b.number; });
  };
  return std::any_of(sites.begin(), sites.end(), has_numbers);
}

bool FamilyCheck::is_optional(std::size_t number, const std::string& word) const {
  const auto& words = rule(number).optional_words;
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool FamilyCheck::is_declared(std::size_t number) const {
  bool any = !rule(number).optional_words.empty();
  for (const std::size_t shared : rules_[number].shared) {
    const RuleCapture& capture = rule(number).captures[shared];
    if (capture.is_word) continue;
    const auto count = counts_.find(key_of(number, capture.name));
    if (count == counts_.end() || !count->second.is_declared) return false;
    any = true;
  }
  return any;
}

}  // namespace reshardfs::modelmap
