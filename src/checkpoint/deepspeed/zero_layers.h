// SPDX-License-Identifier: Apache-2.0
/// The files of the layers of a pipeline: layer_03-model_states.pt has what the module of this
/// number has, in the type of the training, under names without the number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/joined_tensors.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Adds what is not trained, and thus in no flat group: buffers, and frozen parameters.
/// @param layers the files by number.
/// @param untaken gets those whose names in the model nothing states, as of tied layers.
/// @throws Error of reading the files.
void take_layers(const std::filesystem::path& directory,
                 const std::map<std::int64_t, std::string>& layers, const SourceTreePtr& tree,
                 JoinedTensors& out, std::vector<std::string>& untaken);

}  // namespace reshardfs
