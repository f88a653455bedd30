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

/// What is doubtful because no layouts are stated: ranks without a file that are lower than one
/// with a file, and files of one rank that may be alone. One line each.
std::vector<std::string> warnings_without_layouts(const CheckpointSet& checkpoint);

/// Files with whole parameters: from one rank, from all ranks of data parallel training, or the
/// parts of a published model. Parameters to be joined are slices along dimension 0, one for each
/// rank.
class WholeCatalogue final : public Catalogue {
 public:
  /// @param checkpoint must outlive it.
  /// @param takes selects parameters. Others may have different shapes in different files, and are
  ///        not laid out.
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
  mutable std::map<std::size_t, Layout> whole_layouts_;  ///< keyed by the number of dimensions
  mutable std::list<Layout> joined_layouts_;
};

}  // namespace reshardfs
