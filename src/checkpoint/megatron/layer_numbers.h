// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/megatron/rank_file.h"

namespace reshardfs {

/// Which layers of the decoder have tensors in each chunk of each stage; every chunk numbers its
/// own from 0.
using StageLayers = std::vector<std::vector<std::vector<std::int64_t>>>;

/// The number of chunks that each stage has, as the arguments state it: two with the schedule
/// `dualpipev` of MindSpeed, which has no virtual stages beside these.
/// @throws Error as MegatronArgs::size_or_one().
std::size_t stated_chunks(const MegatronArgs& args);

/// The numbers that the layers of the decoder have in the whole model.
///
/// Chunks follow each other: the first ones of all stages, then the second ones. With `dualpipev`,
/// the second ones follow from the last stage to the first.
///
/// Chunks of a HybridModel have the layers of the segments of its pattern, in this order.
///
/// MindSpeed's --noop-layers names layers, of num_layers, that have no parameters. Each chunk then
/// has as many layers, and the others are numbered without them: they are the layers of the model.
/// Source: _get_layer_offset() of mindspeed/core/transformer/transformer_block.py, July 2026, and
/// convert_ckpt_deepseek3_mcore2hf.py of MindSpeed-LLM, August 2026.
class LayerNumbers {
 public:
  LayerNumbers() = default;
  /// @throws Error, without the file: kBadInput if a layer is missing, or if the arguments state
  ///         another number; kUnsupported if they do not state where a layer is.
  LayerNumbers(const MegatronArgs& args, const StageLayers& layers);

  /// @param local of a layer that has tensors.
  std::int64_t of(std::size_t stage, std::size_t chunk, std::int64_t local) const {
    return numbers_[stage][chunk][static_cast<std::size_t>(local)];
  }

 private:
  StageLayers numbers_;  ///< by local numbers
};

}  // namespace reshardfs
