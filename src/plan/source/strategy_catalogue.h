// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/strategy.h"

#include "base/text/glob.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// The ranks of a strategy: from rank 0 on; those of its stage, if it is the file of a later stage
/// alone and the checkpoint has files of these.
/// @throws Error kBadInput if the checkpoint has files of other ranks, too; one stage that is read
///         alone may have them beside it.
SourceRanks source_ranks(const CheckpointSet& checkpoint, const Strategy& strategy);

/// One file or several parts of it for each rank, whose slices are where a strategy lays them out.
class StrategyCatalogue final : public Catalogue {
 public:
  /// @throws what source_ranks() throws.
  StrategyCatalogue(const CheckpointSet& checkpoint, Strategy strategy);

  const Strategy& strategy() const noexcept { return strategy_; }

  std::vector<const Layout*> layouts_of(const std::string& name) const override;
  std::vector<SlicePlacement> placements(const std::string& name,
                                         const Holders& holders) const override;
  std::string hint() const override;

 private:
  Strategy strategy_;
};

/// What states how the parameters of a set are laid out.
struct StatedLayouts {
  std::shared_ptr<const Catalogue> catalogue;  ///< nullptr: nothing does
  const Strategy* strategy = nullptr;          ///< the catalogue's, if it is a strategy's
};

/// The set's own catalogue, or else that of the strategy.
/// @param join parameters that the user has joined from whole files.
/// @throws Error kUsage if the set has its own, and the user states layouts, too; what
///         source_ranks() throws.
StatedLayouts stated_layouts(const CheckpointSet& checkpoint, std::optional<Strategy> strategy,
                             const NameGlobs& join);

}  // namespace reshardfs
