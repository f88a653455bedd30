// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

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
/// behind
///        its end.
/// @param source is set to what the extents are ranges of.
/// @param boxes the tensors that are boxes of others.
std::shared_ptr<const FileIndex> index_of_tensors(std::vector<TorchTensor> tensors,
                                                  std::vector<RefusedTensor> refused,
                                                  const ByteSourcePtr& file, ByteSourcePtr& source,
                                                  BoxOffsets boxes = {});

}  // namespace reshardfs
