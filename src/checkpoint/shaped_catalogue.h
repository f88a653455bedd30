// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "checkpoint/box_catalogue.h"
#include "checkpoint/dcp/saved_objects.h"

namespace reshardfs {

/// A catalogue of tensors whose full shapes are stated, each in boxes, which the indexes of the
/// files state.
class ShapedCatalogue final : public BoxCatalogue {
 public:
  /// @param ranks how many there are, from 0 on.
  ShapedCatalogue(std::int64_t ranks, std::unordered_map<std::string, Shape> shapes,
                  std::vector<RefusedTensor> refused,
                  std::shared_ptr<const SavedObjects> objects = nullptr)
      : BoxCatalogue(SourceRanks(RankRange(Rank(), ranks), ranks)),
        shapes_(std::move(shapes)),
        refused_(std::move(refused)),
        objects_(std::move(objects)) {}

  std::optional<BoxPlacement> boxes(const std::string& name,
                                    const Holders& holders) const override {
    const auto shape = shapes_.find(name);
    if (shape == shapes_.end()) return std::nullopt;
    return boxes_of_entries(holders, shape->second);
  }
  std::vector<RefusedTensor> refused() const override { return refused_; }
  std::shared_ptr<const SavedObjects> saved_objects() const override { return objects_; }

 private:
  std::unordered_map<std::string, Shape> shapes_;
  std::vector<RefusedTensor> refused_;
  std::shared_ptr<const SavedObjects> objects_;
};

/// The catalogue of tensors but those with problems, which it refuses.
/// @param problems reasons, by the names of tensors.
/// @param ranks that saved the set.
inline std::shared_ptr<const ShapedCatalogue> catalogue_without(
    std::map<std::string, std::string> problems, std::unordered_map<std::string, Shape> shapes,
    std::int64_t ranks) {
  std::vector<RefusedTensor> refused;
  for (auto& [name, reason] : problems) {
    shapes.erase(name);
    refused.push_back({name, std::move(reason)});
  }
  return std::make_shared<const ShapedCatalogue>(ranks, std::move(shapes), std::move(refused));
}

}  // namespace reshardfs
