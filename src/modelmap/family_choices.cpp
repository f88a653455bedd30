// SPDX-License-Identifier: Apache-2.0
/// Parts of which each layer has one.
#include <algorithm>
#include <utility>

#include "modelmap/family_check.h"

namespace reshardfs::modelmap {

void FamilyCheck::check_choices() {
  for (const auto& [name, parts] : work_.map_.family.choices) {
    std::map<PartKey, std::vector<std::string>> found;  // by layer
    for (const auto& [key, present] : parts_) {
      for (const std::string& part : parts) {
        if (present.contains(part)) found[key].push_back(part);
      }
    }
    for (const std::size_t block : blocks_of(parts)) check_choice(name, parts, block, found);
  }
}

std::set<std::size_t> FamilyCheck::blocks_of(const std::vector<std::string>& parts) const {
  std::set<std::size_t> blocks;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const MapRule& of = rule(i);
    if (!is_checked(i) || !blocks_.contains(of.block)) continue;
    if (std::find(parts.begin(), parts.end(), of.part) != parts.end()) blocks.insert(of.block);
  }
  return blocks;
}

void FamilyCheck::check_choice(const std::string& name, const std::vector<std::string>& parts,
                               std::size_t block,
                               const std::map<PartKey, std::vector<std::string>>& found) {
  // The rule of the choice that tells which layers there are.
  std::optional<std::size_t> teller;
  for (std::size_t i = 0; i < rules_.size() && !teller; ++i) {
    const bool is_one = rule(i).block == block && is_checked(i) && layer_slot(i) &&
                        std::find(parts.begin(), parts.end(), rule(i).part) != parts.end();
    if (is_one) teller = i;
  }
  if (!teller) return;
  const std::size_t slot = *layer_slot(*teller);
  const std::string& capture = rule(*teller).captures[rules_[*teller].shared[slot]].name;
  for (const CaptureValue& layer : numbers_of(*teller, capture)) {
    const auto present = found.find({block, layer.number});
    const std::size_t count = present == found.end() ? 0 : present->second.size();
    if (count == 1 || !choice_is_wanted(parts, block, layer.number)) continue;
    const std::string where = capture + " " + std::to_string(layer.number);
    const std::string message =
        count == 0 ? where + ": it has no tensor of '" + printable(name) +
                         "': " + examples(parts, block, layer.number) + " missing in the source"
                   : where + ": it has tensors of '" + printable(present->second[0]) +
                         "' and of '" + printable(present->second[1]) +
                         "', which exclude each "
                         "other";
    work_.problems_.add(ProblemKind::kMissing, rule(*teller).place, message);
  }
}

void FamilyCheck::each_of_part(const std::vector<std::string>& parts, std::size_t block,
                               std::int64_t layer, const UseSite& use) const {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const MapRule& of = rule(i);
    const auto slot = layer_slot(i);
    if (of.block != block || !is_checked(i) || !slot) continue;
    if (std::find(parts.begin(), parts.end(), of.part) == parts.end()) continue;
    const std::set<Site> words = word_sites(i);
    if (words.empty()) continue;
    Site site = *words.begin();
    site[*slot].number = layer;
    try {
      if (work_.holds(application_of(i, site))) use(i, site);
    } catch (const Error&) {
      // It has been told already.
    }
  }
}

bool FamilyCheck::choice_is_wanted(const std::vector<std::string>& parts, std::size_t block,
                                   std::int64_t layer) {
  bool wanted = !work_.options_.wants;
  if (wanted) return true;
  each_of_part(parts, block, layer, [&](std::size_t number, const Site& site) {
    wanted = wanted || is_wanted(number, site);
  });
  return wanted;
}

std::string FamilyCheck::examples(const std::vector<std::string>& parts, std::size_t block,
                                  std::int64_t layer) const {
  std::vector<std::string> names;
  for (const std::string& part : parts) {
    bool is_first = true;
    each_of_part({part}, block, layer, [&](std::size_t number, const Site& site) {
      if (std::exchange(is_first, false)) names.push_back(printable(missing_name(number, site)));
    });
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " and ") + name;
  return text + (names.size() == 1 ? " is" : " are");
}

}  // namespace reshardfs::modelmap
