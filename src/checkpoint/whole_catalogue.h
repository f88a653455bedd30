// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/glob.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// Files of whole parameters: one rank's, all ranks' of data parallel training, or parts of a model
/// as it is published. Those that are to be joined are slices along dimension 0, one a rank.
class WholeCatalogue final : public Catalogue {
 public:
  /// @param takes of other parameters the files may have different shapes; these are not laid out.
  WholeCatalogue(const CheckpointSet& checkpoint, NameGlobs join, NameTaker takes);

  bool states_layouts() const noexcept override { return false; }
  std::vector<const Layout*> layouts_of(const std::string& /*name*/) const override { return {}; }
  std::vector<SlicePlacement> placements(const std::string& name,
                                         const Holders& holders) const override;
  std::string hint() const override;

 private:
  /// How many there are from the first rank that has a file to the last.
  std::int64_t joined_ranks() const { return last_rank_ - ranks().all().first() + 1; }
  Layout joined_layout(const Holders& holders) const;
  const Layout& one_device_layout(std::size_t dimensions) const;

  Rank last_rank_;
  NameGlobs join_;
  NameTaker takes_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, Layout> whole_layouts_;  ///< by the number of dimensions
  mutable std::list<Layout> joined_layouts_;
};

}  // namespace reshardfs
