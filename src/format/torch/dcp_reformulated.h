// SPDX-License-Identifier: Apache-2.0
/// Tensors that Megatron-Core, until the end of 2025, stored in another shape than they have:
/// states of its distributed optimizer (fully_sharded_model_space), of which each rank has a run of
/// elements. Dimension d of the tensor is cut into f[d] equal parts, which gives blocks; each block
/// is stored as one row of its elements in C order. So a tensor [G[0], ..., G[n-1]] is stored as
/// [f[0], ..., f[n-1], m], where m is the number of elements of a block, and chunks cut the last
/// dimension anywhere.
///
/// Source: megatron/core/dist_checkpointing/strategies/resharding.py before 2025-12; MCoreMetadata
/// has G as mcore_data[name]["nd_reformulated_orig_global_shape"].
#pragma once

#include <optional>
#include <string>

#include "reshardfs/shape.h"

#include "format/torch/dcp_table.h"

namespace reshardfs {

/// Gives a tensor the shape that it had, with boxes in that shape, each a run of its item
/// (DcpTable::runs).
/// @param tensor with the table's last boxes, which cover the shape that is stored.
/// @return what is wrong; then nothing has changed.
std::optional<std::string> undo_reformulation(DcpTable& table, DcpTensor& tensor,
                                              const Shape& original);

}  // namespace reshardfs
