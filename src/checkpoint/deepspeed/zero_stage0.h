// SPDX-License-Identifier: Apache-2.0
/// What DeepSpeed saves without ZeRO, at stage 0: the whole model in one file, in the type of the
/// training. The optimizer's states are in it, too, by numbers instead of names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/ranks/discovery.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// @param name of the file of model_states, the only one of a step.
/// @return nullopt if it states that there are more files: of ZeRO's, or of other ranks.
/// @throws Error as read_archive() and read_torch_save().
std::optional<Discovery> read_without_zero(const std::filesystem::path& directory,
                                           const std::string& name, const SourceTreePtr& tree);

}  // namespace reshardfs
