// SPDX-License-Identifier: Apache-2.0
/// How the code of a known network can have cut a set.
///
/// Networks of the known families cut their matrices over one axis of the device matrix, the one of
/// tensor parallelism: those that make heads or features along their outputs, those that take them
/// along their inputs. What this leaves whole the optimizer may cut along dimension 0, by one
/// setting for all. So a few numbers (the axis, and the optimizer's setting) lay out the whole set,
/// and a set that agrees with none of them was not made by such code.
///
/// Sources: MindFormers, mindformers/models/llama/llama_transformer.py and
/// mindformers/parallel_core (shard() of each layer); MindSpore, optimizer parallelism
/// (parallel_optimizer_config); transformers, base_model_tp_plan of its configurations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "guess/guess_evidence.h"
#include "strategy/derive/derive_cuts.h"

namespace reshardfs {

struct NetworkReadings {
  /// By case: the readings that are left; nothing where the network's code leaves more than one
  /// way.
  std::vector<std::optional<std::vector<Reading>>> of{};
  /// Whose code: "MindFormers'".
  std::string code{};
  /// Of tensor parallelism: the axes that agree with the set.
  std::vector<DeviceAxis> axes{};
};

/// @return nothing if the set does not show that a known network's code made it: at least four
///         kinds of matrices, of both directions, whose slices differ, must be cut as that code
///         cuts them, and nothing in another way.
/// O(kinds of slices * axes * devices).
std::optional<NetworkReadings> readings_by_network(const std::vector<Evidence>& cases,
                                                   std::int64_t devices);

}  // namespace reshardfs
