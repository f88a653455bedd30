// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/ranks/rank_file.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Replaces weights in 8-bit floats and the scales of their blocks by weights in BFloat16, which
/// are computed when they are read. Other tensors stay as they are.
/// @param files whose indexes are read; all of rank 0, with whole tensors.
/// @param has_layouts whether the set states layouts, and so may have slices.
/// @param config the config.json that states the shape of the blocks; it need not be there.
/// @throws Error kUsage if the files are those of several ranks or parts of tensors, or nothing is
///         quantized; kUnsupported, with the names of all tensors that are not scaled by blocks;
///         kBadInput for config.json.
void dequantize(std::vector<RankFile>& files, bool has_layouts, const std::filesystem::path& config,
                const SourceTreePtr& tree);

}  // namespace reshardfs
