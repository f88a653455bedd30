// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/megatron/megatron_args.h"
#include "format/listed_items.h"
#include "format/torch/torch_archive.h"
#include "format/torch/torch_save.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// A part of the model that one virtual stage has.
struct MegatronChunk {
  std::vector<TorchTensor> tensors{};    ///< by their names below the key of the model
  std::vector<RefusedTensor> refused{};  ///< the same
  /// Layers of the decoder, numbered from 0.
  std::int64_t layers = 0;
};

/// What is in a model_optim_rng.pt.
struct MegatronRankFile {
  std::vector<MegatronChunk> chunks{};  ///< more than one with virtual stages
  MegatronArgs args{};
  std::optional<std::int64_t> iteration{};
  std::size_t extra_states = 0;           ///< of modules: no weights
  std::vector<SavedValue> values{};       ///< at the top, without tensors in them
  std::set<std::string> other_tensors{};  ///< keys at the top beside the model, with tensors
};

/// @throws Error kUnsupported if it has no model, or one with the names from before
///         Megatron-Core; kBadInput if stages or layers are missing; what read_torch_save() throws.
MegatronRankFile read_megatron_rank(const TorchArchive& archive);

}  // namespace reshardfs
