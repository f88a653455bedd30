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
#include "checkpoint/torch/archive_folder.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// What a set's files of modules have that is not shown, and how files were called.
struct LeftOfFiles {
  std::vector<std::string> unnamed{};  ///< of tied layers, whose names in the model no file states
  std::vector<std::string> refused{};  ///< of types that cannot be shown
  SavedNames files{};
};

/// Adds warnings and doubts. @throws Error as state_saved_names().
void state_left(const LeftOfFiles& left, Discovery& out);

/// Adds what is not trained, and thus in no flat group: buffers, and frozen parameters. All else is
/// a copy of what is there.
/// @param layers the files by number.
/// @param stages of the pipeline: that which has a layer's parameters gets the rest of it.
/// @param left gets what is not added.
/// @throws Error of reading the files; kBadInput if one is no file of a layer.
void take_layers(const std::filesystem::path& directory,
                 const std::map<std::int64_t, std::string>& layers, const SourceTreePtr& tree,
                 std::vector<JoinedTensors>& stages, LeftOfFiles& left);

}  // namespace reshardfs
