// SPDX-License-Identifier: Apache-2.0
/// What DeepSpeed saves without ZeRO, at stage 0: the whole model in one file, or in a file for
/// each layer of a pipeline, in the type of the training. The optimizer's states have numbers
/// instead of names, or no shapes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/deepspeed/zero_names.h"
#include "checkpoint/ranks/discovery.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// @param name of the file of model_states, the only one of a step.
/// @return nullopt if it states that there are more files: of ZeRO's, or of other ranks.
/// @throws Error as read_archive() and read_torch_save().
std::optional<Discovery> read_without_zero(const std::filesystem::path& directory,
                                           const std::string& name, const SourceTreePtr& tree);

/// @param step has files of layers.
/// @return nullopt if ZeRO cut the parameters of these layers.
/// @throws Error kBadInput or kMissing if stages are not there, or are of several saves.
std::optional<Discovery> read_layers_without_zero(const std::filesystem::path& directory,
                                                  const ZeroStep& step, const SourceTreePtr& tree);

}  // namespace reshardfs
