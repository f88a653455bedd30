// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/quantized/model_parts.h"
#include "checkpoint/ranks/rank_file.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Replaces quantized weights, and what they are scaled by, by weights in BFloat16, which are
/// computed when they are read. Scales of activations and caches go with them. Other tensors stay
/// as they are.
/// @param files whose indexes are read; all of rank 0, with whole tensors.
/// @param has_layouts whether the set states layouts, and so may have slices.
/// @param config the config.json that states how weights are quantized; it need not be there.
/// @throws Error kUsage if the files are those of several ranks or parts of tensors, or nothing is
///         quantized; kUnsupported for methods that are not known, and with the names of all
///         tensors that do not fit theirs; kBadInput for config.json.
void dequantize(std::vector<RankFile>& files, bool has_layouts, const std::filesystem::path& config,
                const SourceTreePtr& tree);

/// What dequantize() would show.
struct QuantizedModel {
  std::string file{};  ///< the one that states it; empty: none does
  std::vector<ModelParts::Shown> weights{};
  /// Tensors that do not fit what is stated, by the reason. If there are any, dequantize() throws.
  std::map<std::string, std::vector<std::string>> refused{};
};

/// @param files, config, tree as for dequantize().
/// @return nothing if there are slices, or nothing is quantized
/// @throws Error as dequantize() of what is stated
QuantizedModel quantized_model(std::span<const RankFile> files, const std::filesystem::path& config,
                               const SourceTreePtr& tree);

}  // namespace reshardfs
