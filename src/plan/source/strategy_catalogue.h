// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "base/text/glob.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// The ranks of a strategy. They begin at rank 0, unless the strategy is the file of one later
/// stage and the checkpoint has files of that stage's ranks.
/// @throws Error kBadInput if the checkpoint has files of other ranks, unless the strategy is the
///         file of one stage.
SourceRanks source_ranks(const CheckpointSet& checkpoint, const Strategy& strategy);

/// Places the slices in each rank's file, or in its parts, according to a strategy.
///
/// MindSpore's strategies give accumulated gradients (accu_grads.*) the optimizer's cut of their
/// weights, whether gradient_accumulation_shard cuts them or not: then the slices tell. The full
/// shape is that of the weight, with the cut or without it.
class StrategyCatalogue final : public Catalogue {
 public:
  /// Takes the optimizer's cut away from accumulated gradients whose slices do not have it.
  /// @throws errors of source_ranks().
  StrategyCatalogue(const CheckpointSet& checkpoint, Strategy strategy);

  const Strategy& strategy() const noexcept { return strategy_; }

  std::vector<const Layout*> layouts_of(const std::string& name) const override;
  /// @throws Error kBadInput if the slices of accumulated gradients contradict those of the weight.
  std::vector<SlicePlacement> placements(const std::string& name,
                                         const Holders& holders) const override;
  std::string hint() const override;

 private:
  Strategy strategy_;
  std::map<std::string, Error> contradictions_;  ///< by the gradients' name
};

/// The catalogue that lays out the parameters of a set.
struct StatedLayouts {
  std::shared_ptr<const Catalogue> catalogue;  ///< nullptr: no layouts are stated
  const Strategy* strategy = nullptr;          ///< the catalogue's, if it is a strategy's
};

/// The set's own catalogue, or else one made from the strategy.
/// @param join parameters that the user has joined from whole files.
/// @throws Error kUsage if the set has its own catalogue and the user states layouts, too; errors
///         of source_ranks().
StatedLayouts stated_layouts(const CheckpointSet& checkpoint, std::optional<Strategy> strategy,
                             const NameGlobs& join);

}  // namespace reshardfs
