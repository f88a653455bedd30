// SPDX-License-Identifier: Apache-2.0
#include "modelmap/family_cuts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"

namespace reshardfs {
namespace {

using modelmap::RowOrder;
using Cut = Known<FamilyCut>;

constexpr const char* kExperts = "experts";

bool is_single(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size == 1; });
}

std::string unit_of(const modelmap::WholeShape& whole) {
  return whole.unit ? whole.unit->text() : std::string();
}

bool cut_alike(const modelmap::WholeShape& a, const modelmap::WholeShape& b) {
  return a.cut == b.cut && (unit_of(a) == kExperts) == (unit_of(b) == kExperts);
}

}  // namespace

FamilyCuts::FamilyCuts(const std::vector<modelmap::ModelMap>& maps,
                       const modelmap::ModelConfig& config)
    : families_(maps), variables_(maps.size()), numbers_(maps.size()) {
  for (std::size_t map = 0; map < maps.size(); ++map) {
    variables_[map].config = config;
    variables_[map].table = maps[map].variables;
  }
}

std::optional<std::int64_t> known_number(const modelmap::Expression& expression,
                                         const modelmap::Variables& variables) {
  try {
    const std::int64_t number = modelmap::Scope(variables).evaluate(expression);
    return number > 0 ? std::optional(number) : std::nullopt;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return std::nullopt;
  }
}

std::optional<Shape> known_shape(const modelmap::WholeShape& whole,
                                 const modelmap::Variables& variables) {
  Shape shape;
  for (const modelmap::Expression& length : whole.lengths) {
    const auto size = known_number(length, variables);
    if (!size) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

std::string words_of(const UnknownCuts& unknown) {
  std::string text;
  for (const auto& [why, names] : unknown) {
    text += (text.empty() ? "" : "; ") + name_list(names) + " (" + why + ")";
  }
  return text;
}

const FamilyCuts::Numbers& FamilyCuts::numbers_of(const modelmap::WholeShape& whole,
                                                  std::size_t map) const {
  const auto [known, is_new] = numbers_[map].try_emplace(&whole);
  if (is_new) {
    const modelmap::Variables& variables = variables_[map];
    if (whole.unit) known->second.units = known_number(*whole.unit, variables);
    known->second.whole = known_shape(whole, variables);
  }
  return known->second;
}

/// What they agree on.
Cut FamilyCuts::stated_by(const std::vector<FamilyName>& stated) const {
  const modelmap::WholeShape& first = *stated.front().whole;
  FamilyCut cut{first.cut, unit_of(first) == kExperts, unit_of(first), {}, {}};
  std::set<Shape> wholes;
  for (const FamilyName& one : stated) {
    if (!cut_alike(first, *one.whole)) return Cut::unknown("maps state different cuts");
    const Numbers& numbers = numbers_of(*one.whole, one.family / 2);
    if (cut.units && numbers.units && cut.units != numbers.units) {
      return Cut::unknown("maps state different cuts");
    }
    if (numbers.units) cut.units = numbers.units;
    if (numbers.whole) wholes.insert(*numbers.whole);
  }
  if (wholes.size() == 1) cut.whole = *wholes.begin();
  return Cut::stated(std::move(cut), families_.map_of(stated.front().family).file);
}

Cut FamilyCuts::find(const std::string& name, const Shape& shape,
                     const modelmap::MapPlace* made_by) const {
  if (is_single(shape)) return Cut::derived({}, "its only element");
  std::vector<FamilyName> stated;
  std::vector<FamilyName> made;
  std::set<RowOrder> orders;
  std::vector<FamilyName> all = families_.find(name);
  const auto is_made = [&](const FamilyName& found) {
    return made_by != nullptr && found.is_of(*made_by);
  };
  // A rule for any names leaves what they are to the other maps of its network.
  const bool is_of_any = made_by != nullptr && std::none_of(all.begin(), all.end(), is_made);
  if (is_of_any) {
    std::set<std::string> networks;
    for (const FamilyName& maker : families_.of_rule(*made_by)) {
      networks.insert(families_.network_of(maker.family));
    }
    std::erase_if(all, [&](const FamilyName& found) {
      return !networks.empty() && !networks.contains(families_.network_of(found.family));
    });
  }
  for (const FamilyName& found : all) {
    const bool makes = is_made(found);
    if (made_by == nullptr || makes || is_of_any) orders.insert(found.tensors->order);
    if (found.whole == nullptr || found.whole->lengths.size() != shape.size()) continue;
    (makes ? made : stated).push_back(found);
  }
  if (made.empty() && stated.empty()) return Cut::unknown("no model map states where it is cut");
  Cut cut = stated_by(made.empty() ? stated : made);
  if (!cut || !(*cut).dimension || (*cut).by_experts) return cut;
  if (orders.contains(RowOrder::kStacked)) {
    return Cut::unknown(
        "it holds several matrices one after another, which ranks may cut together or each by "
        "itself");
  }
  if (orders.contains(RowOrder::kByParts) && made_by == nullptr) {
    return Cut::unknown("its rows are arranged for a number of ranks that is unknown");
  }
  return cut;
}

bool FamilyCuts::is_arranged(const std::string& name) const {
  const std::vector<FamilyName> all = families_.find(name);
  return std::any_of(all.begin(), all.end(), [&](const FamilyName& found) {
    const bool is_of_framework = !families_.map_of(found.family).rest;
    return is_of_framework && found.tensors->order != RowOrder::kPlain;
  });
}

}  // namespace reshardfs
