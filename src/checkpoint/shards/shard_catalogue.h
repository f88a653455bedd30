// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/box_catalogue.h"

namespace reshardfs {

/// A catalogue of tensors of which each file has a part. Files state where their parts begin, but
/// not the full shape, which is taken to end where the last part ends. A set without its last files
/// looks like a smaller one; shard_shapes.h detects this.
class ShardCatalogue final : public BoxCatalogue {
 public:
  /// @param names of the model in whole tensors, from its index; empty: there is no index.
  ShardCatalogue(std::int64_t shards, std::vector<std::string> names);

  /// @throws Error kBadInput if the parts have different numbers of dimensions.
  std::optional<BoxPlacement> boxes(const std::string& name, const Holders& holders) const override;
  std::vector<std::string> required_names() const override { return names_; }

 private:
  std::vector<std::string> names_;
};

}  // namespace reshardfs
