// SPDX-License-Identifier: Apache-2.0
/// The layers of a HybridModel, as the training arguments of Megatron-LM state them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/megatron/rank_file.h"
#include "modelmap/layer_pattern.h"

namespace reshardfs {

/// The pattern of its layers; nothing for other models.
std::optional<std::string> layer_pattern_text(const MegatronArgs& args);

/// What the pattern and num_layers contradict, or the names: words that say so. Empty: nothing.
/// @param names of all tensors of the model, with the numbers of layers in the whole model.
std::string pattern_contradiction(const MegatronArgs& args, const std::string& text,
                                  const std::vector<modelmap::LayerTensor>& names);

/// How many layers each chunk of the model has, in the order in which chunks follow each other: all
/// first ones of the stages, then all second ones. Source: select_pipeline_segment() in
/// megatron/core/models/hybrid/hybrid_layer_allocation.py of Megatron-Core 0.19.2 and 0.20.
/// @param chunks of all stages.
/// @throws Error, without the file: kBadInput if the pattern is none, or cannot be cut so.
std::vector<std::int64_t> layers_of_chunks(const MegatronArgs& args, const std::string& text,
                                           std::size_t chunks);

}  // namespace reshardfs
