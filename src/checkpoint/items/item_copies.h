// SPDX-License-Identifier: Apache-2.0
/// Tensors that several ranks saved as a whole, without a table that states that they are copies.
#pragma once

#include "checkpoint/items/item_files.h"
#include "checkpoint/torch/torch_ranks.h"
#include "format/torch/torch_save.h"
#include "storage/byte_source.h"

namespace reshardfs {

struct OpenSave {
  const ByteSource& source;
  const TorchSave& saved;
};

/// Whether both have tensors of the same names, types and shapes, with the same first bytes.
/// @throws errors of the sources.
bool begin_equally(const OpenSave& one, const OpenSave& other);

/// Refuses the tensors of items without a table that are whole in several files and not the same
/// there, and those that are whole in one file and a part in another. Compares all bytes of what
/// can be read quickly, and the first ones of the rest, which those who read it compare.
/// @param ranks whose files have the numbers of their items as parts.
/// @throws errors of the sources.
void refuse_differing_copies(const ItemFiles& files, TorchRanks& ranks);

}  // namespace reshardfs
