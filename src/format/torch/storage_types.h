// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/torch/pickle_tree.h"

namespace reshardfs {

/// PyTorch would read all tensors of a storage as the type that it reads first.
/// @throws Error kBadInput, without the file, if a storage has two types.
void require_one_type_each(const PickleTree& tree);

}  // namespace reshardfs
