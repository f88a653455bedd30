// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/box_catalogue.h"

namespace reshardfs {

/// Tensors of which each file has a part, and tells where it begins, but not how large the whole
/// is: that is what the parts reach. A set of which the last files are missing looks like a smaller
/// one: shard_shapes.h has what tells the difference.
class ShardCatalogue final : public BoxCatalogue {
 public:
  /// @param names of the model in whole tensors, by its index; none: there is none.
  ShardCatalogue(std::int64_t shards, std::vector<std::string> names);

  /// @throws Error kBadInput if the parts have different numbers of dimensions.
  std::optional<BoxPlacement> boxes(const std::string& name, const Holders& holders) const override;
  std::vector<std::string> required_names() const override { return names_; }

 private:
  std::vector<std::string> names_;
};

}  // namespace reshardfs
