// SPDX-License-Identifier: Apache-2.0
/// What ranks have in common in a distributed checkpoint of Megatron-Core (torch_dist): the
/// training's arguments and the iteration. It is in common.pt beside the table; newer releases save
/// it as an object in the table's files.
#pragma once

#include <filesystem>

#include "checkpoint/ranks/discovery.h"
#include "format/torch/dcp_table.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Compares what it states with the directory's name and with the tensors of the table. What
/// contradicts the arguments becomes part of the completeness. Does nothing where there is none;
/// one that cannot be read becomes a note.
/// @param directory the one that has the table.
/// @throws Error kBadInput if it is of another iteration; kIo.
void compare_common_state(const std::filesystem::path& directory, const DcpTable& table,
                          const SourceTreePtr& tree, Discovery& out);

}  // namespace reshardfs
