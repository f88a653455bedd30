// SPDX-License-Identifier: Apache-2.0
#include "plan/source/absent_names.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace reshardfs {
namespace {

/// By stage of a source that states its ranks, whether any of them has a file.
std::vector<bool> stages_with_files(const SourceTable& source) {
  const SourceRanks& ranks = source.unmapped().ranks();
  std::vector<bool> has(static_cast<std::size_t>(ranks.stages()), false);
  for (const RankFile& file : source.checkpoint().files()) {
    if (!ranks.all().contains(file.rank)) continue;
    has[static_cast<std::size_t>(ranks.stage_of(file.rank))] = true;
  }
  return has;
}

bool has_lost_stage(const std::vector<bool>& has_files) {
  return std::find(has_files.begin(), has_files.end(), false) != has_files.end();
}

/// Whether the source has every parameter of the strategy: nearly always, and found out without
/// sorting the names.
bool has_all_of(const SourceTable& source, const Strategy& strategy) {
  for (std::int64_t stage = 0; stage < strategy.stage_count(); ++stage) {
    const StageLayouts& layouts = strategy.stage(stage);
    const auto& parameters = source.parameters();
    const auto held = std::count_if(
        parameters.begin(), parameters.end(),
        [&](const SourceParameter& parameter) { return layouts.contains(parameter.name); });
    // The source has each name once.
    if (static_cast<std::size_t>(held) != layouts.size()) return false;
  }
  return true;
}

}  // namespace

std::vector<Rank> ranks_of_lost_stages(const SourceTable& source) {
  std::vector<Rank> lost;
  if (!source.states_layouts()) return lost;
  const SourceRanks& ranks = source.unmapped().ranks();
  const std::vector<bool> has_files = stages_with_files(source);
  for (std::size_t stage = 0; stage < has_files.size(); ++stage) {
    if (has_files[stage]) continue;
    for (std::int64_t device = 0; device < ranks.devices(); ++device) {
      const auto first = static_cast<std::int64_t>(stage) * ranks.devices();
      lost.push_back(ranks.all().first() + (first + device));
    }
  }
  return lost;
}

AbsentNames absent_names(const SourceTable& source, const std::optional<Strategy>& target,
                         const NameMap& names, const NameFilter& filter) {
  AbsentNames out;
  const Strategy* const listing = source.strategy();
  if (listing == nullptr && !target) return out;  // nothing lists names
  if (names.entries().empty() && (listing == nullptr || has_all_of(source, *listing)) &&
      (!target || has_all_of(source, *target))) {
    return out;
  }
  std::vector<bool> has_files;
  if (source.states_layouts()) has_files = stages_with_files(source);
  // Of the source, the strategies and the map, which outlive it.
  std::unordered_set<std::string_view> known;
  known.reserve(source.parameters().size());
  for (const SourceParameter& parameter : source.parameters()) {
    known.insert(names.target(parameter.name));
  }
  for (std::int64_t stage = 0; listing != nullptr && stage < listing->stage_count(); ++stage) {
    for (const auto& [name, layout] : listing->stage(stage)) {
      const std::string& shown = names.target(name);
      if (known.contains(shown)) continue;  // nearly always
      if ((target && !target->contains(shown)) || !takes(filter, names, name)) continue;
      known.insert(shown);
      const std::vector<std::int64_t> stages = listing->stages_of(name);
      const bool is_saved_without = std::any_of(
          stages.begin(), stages.end(),
          [&](std::int64_t own) { return bool{has_files[static_cast<std::size_t>(own)]}; });
      (is_saved_without ? out.unsaved : out.lost).push_back(shown);
    }
  }
  const NameMap same;
  for (std::int64_t stage = 0; target && stage < target->stage_count(); ++stage) {
    for (const auto& [name, layout] : target->stage(stage)) {
      if (known.contains(name) || !takes(filter, same, name)) continue;
      known.insert(name);
      (has_lost_stage(has_files) ? out.lost : out.unsaved).push_back(name);
    }
  }
  return out;
}

}  // namespace reshardfs
