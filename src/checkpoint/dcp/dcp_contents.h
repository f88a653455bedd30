// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "checkpoint/ranks/discovery.h"
#include "format/torch/dcp_table.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// The files that a table names, with what it tells of each, and its catalogue. Which rank has
/// written a file does not matter: they are numbered in the order of their names.
/// @param directory that of the table.
/// @throws Error if there is no tensor that can be shown.
Discovery dcp_contents(const std::filesystem::path& directory, DcpTable table,
                       const SourceTreePtr& tree);

}  // namespace reshardfs
