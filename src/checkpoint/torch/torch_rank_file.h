// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/rank_file.h"
#include "format/torch/torch_save.h"

namespace reshardfs {

/// Finds the tensors of a file if torch.save wrote it, whatever its name is: sets its index, its
/// source and `saved`. Does nothing to other files.
/// @throws Error as open_torch_file().
void open_if_torch(RankFile& file, const CheckpointOptions& options, SavedBeside& beside);

/// What several files have: each name once.
SavedBeside joined(std::vector<SavedBeside> of_files);

/// Lines about what is not shown, and the usual keys of a model.
std::vector<std::string> notes_of(const SavedBeside& beside, const CheckpointOptions& options);

/// For a set that has only the model's own names.
/// @throws Error kUsage if a key was given.
void refuse_state_key(const std::filesystem::path& set, const CheckpointOptions& options);

/// @throws Error kUsage if a key was given that no file has, or that selects in no file.
void require_state(const std::vector<RankFile>& files, const CheckpointOptions& options,
                   const SavedBeside& beside);

}  // namespace reshardfs
