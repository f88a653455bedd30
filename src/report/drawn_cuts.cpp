// SPDX-License-Identifier: Apache-2.0
#include "report/drawn_cuts.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "layout/slicing.h"
#include "report/page_data.h"

namespace reshardfs {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

bool any_above_one(const std::vector<AxisPartition>& partitions) {
  return std::any_of(partitions.begin(), partitions.end(),
                     [](const AxisPartition& partition) { return partition.parts() > 1; });
}

const Slicing* slicing_on(const TargetTable& target, const TargetParameter& parameter, Rank rank) {
  return parameter.treatment == Treatment::kReshard
             ? parameter.cuts().at(target.stage_of(rank)).get()
             : nullptr;
}

/// What a picture would show but for the ranks, as a text; empty: nothing.
class Look {
 public:
  Look(const TargetTable& target, const TargetParameter& parameter,
       const std::vector<Rank>& ranks) {
    if (!parameter.grid || parameter.grid->boxes() != nullptr) return;
    const auto own = std::find_if(ranks.begin(), ranks.end(),
                                  [&](Rank rank) { return target.has(parameter, rank); });
    if (own == ranks.end()) return;
    text_ = to_string(parameter.grid->full_shape());
    for (const AxisPartition& partition : parameter.grid->partitions()) {
      text_ += fmt::format(" {}", partition.parts());
    }
    is_cut_ = parameter.grid->mapped() != nullptr || any_above_one(parameter.grid->partitions());
    text_ += parameter.grid->mapped() != nullptr ? " mapped" : "";
    const Slicing* slicing = slicing_on(target, parameter, *own);
    if (slicing == nullptr) return;
    text_ += " to";
    for (const AxisPartition& partition : slicing->partitions()) {
      text_ += fmt::format(" {}", partition.parts());
    }
    is_cut_ = is_cut_ || any_above_one(slicing->partitions());
  }

  const std::string& text() const noexcept { return text_; }
  bool is_cut() const noexcept { return is_cut_; }

 private:
  std::string text_;
  bool is_cut_ = false;
};

}  // namespace

std::vector<std::size_t> kind_examples(const TargetTable& target, const TrafficSurvey& survey,
                                       const ParameterRoles& roles) {
  std::vector<std::size_t> examples(survey.kinds.size(), kNone);
  for (std::size_t p = 0; p < survey.kind_of.size(); ++p) {
    std::size_t& example = examples[survey.kind_of[p]];
    if (example == kNone && !roles.is_of_optimizer(target.parameters()[p])) example = p;
  }
  for (std::size_t kind = 0; kind < examples.size(); ++kind) {
    if (examples[kind] == kNone) examples[kind] = survey.kinds[kind].first;
  }
  return examples;
}

std::vector<DrawnCut> drawn_cuts(const TargetTable& target, const std::vector<Rank>& ranks,
                                 const TrafficSurvey& survey, const ParameterRoles& roles,
                                 const std::vector<std::size_t>& examples) {
  std::vector<DrawnCut> cuts;
  std::vector<std::size_t> cut_of(survey.kinds.size(), kNone);
  std::map<std::string, std::size_t> by_look;
  for (std::size_t kind = 0; kind < survey.kinds.size(); ++kind) {
    const TargetParameter& example = target.parameters()[examples[kind]];
    const Look look(target, example, ranks);
    if (look.text().empty()) continue;
    const auto [found, is_new] = by_look.try_emplace(look.text(), cuts.size());
    if (is_new) cuts.push_back({.example = examples[kind], .is_cut = look.is_cut()});
    cut_of[kind] = found->second;
    DrawnCut& cut = cuts[found->second];
    const bool is_state = roles.is_of_optimizer(example);
    if (cut.example_is_state && !is_state) cut.example = examples[kind];
    cut.example_is_state = cut.example_is_state && is_state;
    cut.count += survey.kinds[kind].count;
    cut.bytes += survey.kinds[kind].count * full_bytes(target, example, ranks);
  }
  for (std::size_t kind = 0; kind < survey.kinds.size(); ++kind) {
    if (cut_of[kind] == kNone) continue;
    DrawnCut& cut = cuts[cut_of[kind]];
    const ParameterKind& shown = survey.kinds[survey.kind_of[cut.example]];
    if (survey.kinds[kind].source_ranks != shown.source_ranks) cut.same_sources = false;
  }
  std::stable_sort(cuts.begin(), cuts.end(), [](const DrawnCut& a, const DrawnCut& b) {
    return std::tuple(!a.is_cut, a.example_is_state, b.bytes) <
           std::tuple(!b.is_cut, b.example_is_state, a.bytes);
  });
  return cuts;
}

}  // namespace reshardfs
