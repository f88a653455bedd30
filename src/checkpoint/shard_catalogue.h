// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/catalogue.h"

namespace reshardfs {

/// What is known of a model that is saved in shards, beside the shards.
struct ShardedModel {
  std::int64_t shards = 0;
  /// Whether each file tells the number of its shard.
  bool numbered = false;
  /// The rows of the embedding, by config.json; nothing: it is not there, or does not tell.
  std::optional<std::int64_t> vocabulary{};
  /// By the index of the same model in whole tensors; none: there is none.
  std::vector<std::string> names{};
};

/// Tensors of which each file has a part, and tells where it begins, but not how large the whole
/// is: that is what the parts reach. A set of which the last files are missing looks like a smaller
/// one.
class ShardCatalogue final : public Catalogue {
 public:
  explicit ShardCatalogue(ShardedModel model);

  std::vector<const Layout*> layouts_of(const std::string& /*name*/) const override { return {}; }
  std::vector<SlicePlacement> placements(const std::string& /*name*/,
                                         const Holders& /*holders*/) const override {
    return {};
  }
  /// @throws Error kBadInput if the parts have different numbers of dimensions; kMissing if the
  ///         embedding lacks rows.
  std::optional<BoxPlacement> boxes(const std::string& name, const Holders& holders) const override;
  std::string hint() const override { return "take all files from one save"; }
  std::vector<std::string> required_names() const override { return model_.names; }
  std::vector<std::string> warnings() const override;
  bool has_pieces() const override { return true; }

 private:
  void require_rows(const std::string& name, const Shape& full) const;

  ShardedModel model_;
};

}  // namespace reshardfs
