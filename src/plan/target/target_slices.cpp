// SPDX-License-Identifier: Apache-2.0
/// What a rank has of a target's parameters.
#include <algorithm>
#include <iterator>

#include "layout/slicing.h"
#include "plan/target/target_table.h"

namespace reshardfs {

std::vector<std::string> TargetTable::lost_on(Rank rank) const {
  if (!strategy_ || !target_lists_names_) return lost_;
  const StageLayouts& stage = strategy_->stage(static_cast<std::int64_t>(stage_of(rank)));
  std::vector<std::string> lost;
  std::copy_if(lost_.begin(), lost_.end(), std::back_inserter(lost),
               [&](const std::string& name) { return stage.contains(name); });
  return lost;
}

bool TargetTable::in_stage_of(const TargetParameter& parameter, Rank rank) const {
  const std::size_t stage = stage_of(rank);
  if (parameter.treatment == Treatment::kReshard) return parameter.cuts()[stage] != nullptr;
  return parameter.stages == nullptr || parameter.stages->has[stage];
}

bool TargetTable::has(const TargetParameter& parameter, Rank rank) const {
  const bool raw = parameter.treatment == Treatment::kRaw;
  return in_stage_of(parameter, rank) && (!raw || raw_holding(*parameter.source, rank));
}

bool TargetTable::lacks(const TargetParameter& parameter, Rank rank) const {
  return in_stage_of(parameter, rank) && !has(parameter, rank);
}

/// The lowest stage's file that holds it, among the ranks (destination rank modulo stage devices).
Holding TargetTable::raw_holding(const SourceParameter& parameter, Rank rank) const {
  const std::int64_t device = rank.number() % source_->ranks().devices();
  for (const Holding& holder : parameter.holders) {
    if (source_->ranks().device_of(holder.file->rank) == device) return holder;
  }
  return {};
}

Shape TargetTable::slice_shape(const TargetParameter& parameter, Rank rank) const {
  if (parameter.treatment == Treatment::kRaw) {
    return array_shape(*raw_holding(*parameter.source, rank).entry);
  }
  if (parameter.treatment == Treatment::kKeep) return parameter.grid->full_shape();
  return parameter.cuts()[stage_of(rank)]->slice_shape(device_of(rank));
}

ShownTensor TargetTable::view(const TargetParameter& parameter, Rank rank) const {
  if (replicas_ == Replicas::kOwn && parameter.treatment != Treatment::kRaw) {
    const Holding own = own_holding(parameter, rank);
    if (own) return ShownTensor(single_cell_grid(own));
  }
  return shared_view(parameter, rank);
}

ShownTensor TargetTable::shared_view(const TargetParameter& parameter, Rank rank) const {
  switch (parameter.treatment) {
    case Treatment::kReshard: {
      const Slicing& slicing = *parameter.cuts()[stage_of(rank)];
      return {parameter.grid, slicing.partitions(), slicing.parts_of(device_of(rank))};
    }
    case Treatment::kKeep:
      return ShownTensor(parameter.grid);
    case Treatment::kRaw:
      break;
  }
  return ShownTensor(single_cell_grid(raw_holding(*parameter.source, rank)));
}

const Layout* TargetTable::layout(const TargetParameter& parameter, Rank rank) const {
  if (!strategy_ || parameter.treatment != Treatment::kReshard) return nullptr;
  const StageLayouts& stage = strategy_->stage(static_cast<std::int64_t>(stage_of(rank)));
  // A state that follows its weight has the weight's.
  const auto own = stage.find(parameter.name);
  if (own != stage.end()) return &own->second;
  const auto like =
      stage.find(name_map_.target(weight_of(parameter.source->name, state_prefixes_)));
  return like == stage.end() ? nullptr : &like->second;
}

}  // namespace reshardfs
