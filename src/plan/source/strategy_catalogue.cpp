// SPDX-License-Identifier: Apache-2.0
#include "plan/source/strategy_catalogue.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

/// Ranks that have files, but are none of these.
std::vector<Rank> others(const CheckpointSet& checkpoint, const RankRange& ranks) {
  std::vector<Rank> outside;
  for (const RankFile& file : checkpoint.files()) {
    const bool listed = !outside.empty() && outside.back() == file.rank;
    if (!listed && !ranks.contains(file.rank)) outside.push_back(file.rank);
  }
  return outside;
}

bool has_any(const CheckpointSet& checkpoint, const RankRange& ranks) {
  const auto& files = checkpoint.files();
  return std::any_of(files.begin(), files.end(),
                     [&](const RankFile& file) { return ranks.contains(file.rank); });
}

}  // namespace

SourceRanks source_ranks(const CheckpointSet& checkpoint, const Strategy& strategy) {
  const std::int64_t devices = strategy.devices_per_stage();
  const RankRange all(Rank(), strategy.rank_count());
  const RankRange own(Rank(strategy.first_stage() * devices), all.size());
  if (own.first() > Rank() && has_any(checkpoint, own)) return {own, devices};
  const std::vector<Rank> outside = others(checkpoint, all);
  if (outside.empty()) return {all, devices};
  throw Error(ErrorKind::kBadInput,
              "the source strategy is for " +
                  counted(static_cast<std::size_t>(all.size()), "rank") + " (" +
                  counted(static_cast<std::size_t>(strategy.stage_count()), "stage") + " of " +
                  counted(static_cast<std::size_t>(devices), "device") +
                  "), but the checkpoint also has rank " + format_rank_list(outside))
      .in_file(checkpoint.files().front().path.parent_path().string())
      .hint("give the strategy that this checkpoint was saved with (--src-strategy)");
}

StrategyCatalogue::StrategyCatalogue(const CheckpointSet& checkpoint, Strategy strategy)
    : Catalogue(source_ranks(checkpoint, strategy)), strategy_(std::move(strategy)) {}

std::vector<const Layout*> StrategyCatalogue::layouts_of(const std::string& name) const {
  std::vector<const Layout*> layouts;
  for (std::int64_t stage = 0; stage < strategy_.stage_count(); ++stage) {
    const StageLayouts& all = strategy_.stage(stage);
    const auto found = all.find(name);
    if (found != all.end()) layouts.push_back(&found->second);
  }
  return layouts;
}

std::vector<SlicePlacement> StrategyCatalogue::placements(const std::string& name,
                                                          const Holders& holders) const {
  std::vector<SlicePlacement> placements;
  for (std::int64_t stage = 0; stage < strategy_.stage_count(); ++stage) {
    const StageLayouts& all = strategy_.stage(stage);
    const auto found = all.find(name);
    if (found == all.end()) continue;
    const RankRange devices = ranks().of_stage(stage);
    Holders own = holders.within(devices);
    if (own.empty()) continue;
    placements.push_back({&found->second, DeviceRanks(devices), std::nullopt, std::move(own)});
  }
  return placements;
}

std::string StrategyCatalogue::hint() const {
  return "check that --src-strategy is the one that this checkpoint was saved with";
}

StatedLayouts stated_layouts(const CheckpointSet& checkpoint, std::optional<Strategy> strategy,
                             const NameGlobs& join) {
  if (!checkpoint.catalogue()) {
    if (!strategy) return {};
    if (!join.empty()) {
      throw Error(ErrorKind::kUsage,
                  "--src-join is for slices without a strategy, and the source strategy says how "
                  "parameters are cut")
          .in_file(checkpoint.root().string())
          .hint("leave --src-join or --src-strategy out");
    }
    const auto made = std::make_shared<const StrategyCatalogue>(checkpoint, std::move(*strategy));
    return {made, &made->strategy()};
  }
  if (!strategy && join.empty()) return {checkpoint.catalogue(), nullptr};
  throw Error(ErrorKind::kUsage, std::string("the checkpoint records its own layouts: ") +
                                     (strategy ? "it does not accept a source strategy"
                                               : "no parameter of it is to be joined"))
      .in_file(checkpoint.root().string())
      .hint(strategy ? "leave --src-strategy out" : "leave --src-join out");
}

}  // namespace reshardfs
