// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/rank_file.h"
#include "format/file_index.h"
#include "format/torch/torch_save.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// A file of torch.save, open as a source of tensors.
struct TorchFile {
  std::shared_ptr<const FileIndex> index;
  /// The extents of `index` are ranges of this source: the file, and behind its end the tensors
  /// that do not lie in C order in it.
  ByteSourcePtr source;
  SavedBeside beside;
};

/// @param state_key takes only what is below this key, whose names then begin behind it: with
///        "model", "model.layers.0.weight" becomes "layers.0.weight". Empty: all.
/// @throws Error as read_archive() and read_torch_save().
TorchFile open_torch_file(ByteSourcePtr file, const std::string& state_key);

/// An index of tensors as they lie in a file.
/// @param tensors with names.
/// @param file where their storages are; tensors that do not lie in C order in it get extents
///        behind its end.
/// @param source is set to what the extents are ranges of.
/// @param boxes the tensors that are boxes of others.
std::shared_ptr<const FileIndex> index_of_tensors(std::vector<TorchTensor> tensors,
                                                  std::vector<RefusedTensor> refused,
                                                  const ByteSourcePtr& file, ByteSourcePtr& source,
                                                  BoxOffsets boxes = {});

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
/// @param is_applied whether it has been applied already, whatever the names of the files are.
void require_state(const std::vector<RankFile>& files, const CheckpointOptions& options,
                   const SavedBeside& beside, bool is_applied);

}  // namespace reshardfs
