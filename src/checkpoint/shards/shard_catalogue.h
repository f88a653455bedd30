// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/catalogue.h"

namespace reshardfs {

/// Tensors of which each file has a part, and tells where it begins, but not how large the whole
/// is: that is what the parts reach. A set of which the last files are missing looks like a smaller
/// one: shard_extents.h has what tells the difference.
class ShardCatalogue final : public Catalogue {
 public:
  /// @param names of the model in whole tensors, by its index; none: there is none.
  ShardCatalogue(std::int64_t shards, std::vector<std::string> names);

  std::vector<const Layout*> layouts_of(const std::string& /*name*/) const override { return {}; }
  std::vector<SlicePlacement> placements(const std::string& /*name*/,
                                         const Holders& /*holders*/) const override {
    return {};
  }
  /// @throws Error kBadInput if the parts have different numbers of dimensions.
  std::optional<BoxPlacement> boxes(const std::string& name, const Holders& holders) const override;
  std::string hint() const override { return "take all files from one save"; }
  std::vector<std::string> required_names() const override { return names_; }
  bool has_pieces() const override { return true; }

 private:
  std::vector<std::string> names_;
};

}  // namespace reshardfs
