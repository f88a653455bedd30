// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/text/glob.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/joined_ranks.h"

namespace reshardfs {

/// A line about ranks without a file below one that has one: without a strategy nothing tells
/// whether they have parameters of their own. Empty: there are none.
std::string missing_ranks_warning(const CheckpointSet& checkpoint);

/// Files of whole parameters: one rank's, all ranks' of data parallel training, or parts of a model
/// as it is published. Those that are to be joined are slices along dimension 0, one a rank.
class WholeCatalogue final : public Catalogue {
 public:
  /// @param checkpoint must outlive it.
  /// @param takes of other parameters the files may have different shapes; these are not laid out.
  WholeCatalogue(const CheckpointSet& checkpoint, NameGlobs join, NameTaker takes);

  bool states_layouts() const noexcept override { return false; }
  std::vector<const Layout*> layouts_of(const std::string& /*name*/) const override { return {}; }
  std::vector<SlicePlacement> placements(const std::string& name,
                                         const Holders& holders) const override;
  std::string hint() const override;
  std::vector<std::string> warnings() const override;

 private:
  Layout joined_layout(const std::string& name, const Holders& holders) const;
  const Layout& one_device_layout(std::size_t dimensions) const;

  const CheckpointSet& checkpoint_;
  mutable JoinedRanks joined_;
  NameTaker takes_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, Layout> whole_layouts_;  ///< by the number of dimensions
  mutable std::list<Layout> joined_layouts_;
};

}  // namespace reshardfs
