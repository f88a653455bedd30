// SPDX-License-Identifier: Apache-2.0
#include "plan/source/strategy_catalogue.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/text.h"
#include "layout/slicing.h"

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

/// What one rank holds under a layout.
struct Held {
  const Layout* layout = nullptr;
  const RankFile* file = nullptr;
  Shape slice{};
};

/// Nothing where other checks find what is wrong, or more slices are needed.
std::optional<Shape> full_shape(const Layout& layout, std::int64_t device, const Shape& slice) {
  try {
    return full_shape_of(layout, {{device, slice}});
  } catch (const Error&) {
    return std::nullopt;
  }
}

constexpr std::string_view kAccumulated = "accu_grads.";

/// The accumulated gradients in the files of a stage.
class GradientSlices {
 public:
  GradientSlices(const CheckpointSet& checkpoint, const RankRange& ranks,
                 const StageLayouts& layouts)
      : ranks_(ranks), layouts_(layouts) {
    for (const RankFile& file : checkpoint.files()) {
      if (ranks.contains(file.rank)) files_.push_back(&file);
    }
  }

  /// @param name of a layout with an optimizer's cut.
  /// @return the layout that the slices have; nothing if it is the stated one.
  /// @throws Error kBadInput if they have none that fits.
  std::optional<Layout> layout_of(const std::string& name) const {
    const auto gradient = held(name);
    if (!gradient) return std::nullopt;
    Layout uncut_layout = *gradient->layout;
    uncut_layout.optimizer_shard_size = 0;
    const auto cut = full(*gradient, *gradient->layout);
    const auto uncut = full(*gradient, uncut_layout);
    if (!cut || !uncut || cut == uncut) return std::nullopt;
    const std::string weight_name = name.substr(kAccumulated.size());
    const auto weight = held(weight_name);
    const auto whole = weight ? full(*weight, *weight->layout) : std::nullopt;
    if (whole == cut) return std::nullopt;
    if (whole == uncut) return uncut_layout;
    const std::string slice = "its slice " + to_string(gradient->slice);
    Error error(ErrorKind::kBadInput,
                whole ? slice + " is of " + to_string(*cut) + " by the source strategy, or of " +
                            to_string(*uncut) + " without the optimizer's cut, but '" +
                            printable(weight_name) + "' is " + to_string(*whole)
                      : slice + " may be cut for the optimizer or not, and no file has '" +
                            printable(weight_name) + "', whose shape would tell");
    throw error.in_file(gradient->file->path.string());
  }

 private:
  /// Of the first rank that has it; nothing if none has, or no layout is stated.
  std::optional<Held> held(const std::string& name) const {
    const auto layout = layouts_.find(name);
    if (layout == layouts_.end()) return std::nullopt;
    for (const RankFile* file : files_) {
      const TensorEntry* const entry = file->index->find(name);
      if (entry != nullptr) return Held{&layout->second, file, entry->shape};
    }
    return std::nullopt;
  }

  std::optional<Shape> full(const Held& held, const Layout& layout) const {
    return full_shape(layout, held.file->rank - ranks_.first(), held.slice);
  }

  const RankRange& ranks_;
  const StageLayouts& layouts_;
  std::vector<const RankFile*> files_;
};

bool has_optimizer_cut(const Strategy& strategy) {
  bool any = false;
  for (std::int64_t stage = 0; stage < strategy.stage_count(); ++stage) {
    strategy.stage(stage).for_each_layout(
        [&](const Layout& layout) { any = any || layout.optimizer_shard_size != 0; });
  }
  return any;
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
    : Catalogue(source_ranks(checkpoint, strategy)), strategy_(std::move(strategy)) {
  if (!has_optimizer_cut(strategy_)) return;
  std::vector<StageLayouts> stages;
  for (std::int64_t stage = 0; stage < strategy_.stage_count(); ++stage) {
    const StageLayouts& stated = strategy_.stage(stage);
    StageLayouts& own = stages.emplace_back(stated);
    const RankRange devices = ranks().of_stage(stage);
    const GradientSlices slices(checkpoint, devices, stated);
    for (const auto& [name, layout] : stated) {
      if (layout.optimizer_shard_size == 0 || !name.starts_with(kAccumulated)) continue;
      try {
        if (const auto found = slices.layout_of(name)) own.insert_or_assign(name, *found);
      } catch (const Error& error) {
        contradictions_.emplace(name, error);
      }
    }
  }
  strategy_ = Strategy(std::move(stages), strategy_.first_stage(), strategy_.stage_prefixed(),
                       strategy_.operators(), strategy_.devices_per_stage());
}

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
  const auto wrong = contradictions_.find(name);
  if (wrong != contradictions_.end()) throw Error(wrong->second).hint(hint());
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
