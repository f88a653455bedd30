// SPDX-License-Identifier: Apache-2.0
/// The pipeline stages of tensors of a model family.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "conversion/family_target.h"
#include "modelmap/family_stages.h"
#include "strategy/derive/layer_stages.h"

namespace reshardfs {

struct PlacedTensors {
  std::vector<std::vector<std::int64_t>> stages{};  ///< of each tensor, ascending; perhaps none
  UnknownCuts unknown{};                            ///< shown tensors whose stage is not stated
  std::map<std::string, std::string> why{};         ///< by such a tensor
};

/// What becomes of the others where the stage of a shown tensor is not known.
enum class UnknownPlaces : std::uint8_t {
  kRefused,  ///< they get no stages either
  kLeftOpen,
};

/// What tells the stages of a model's tensors.
struct PlaceSource {
  const FamilyStages& maps;
  /// Of what no map tells the stage, this does; nullptr: nothing.
  const TensorPlan* plan = nullptr;
  std::optional<bool> is_tied{};         ///< the head to the embedding
  std::optional<std::int64_t> layers{};  ///< of the model
  /// Whether the plan calls a tensor of this name the head.
  std::function<bool(const std::string& name)> is_head{};
};

/// @param wanted how many layers each stage has; empty: all have as many.
/// @param prefixes of more states than MindSpore's own.
/// @throws Error kUsage for numbers that do not go with the layers of the model; kBadInput if it
///         cannot be told how many these are.
PlacedTensors place_tensors(const PlaceSource& source, const std::vector<FamilyTensor>& tensors,
                            std::int64_t stages, const StageLayers& wanted,
                            const std::vector<std::string>& prefixes,
                            UnknownPlaces unknown = UnknownPlaces::kRefused);

}  // namespace reshardfs
