// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "checkpoint/ranks/discovery.h"
#include "format/torch/dcp_table.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// The files that a table names, with its description of each, and its catalogue. Files are
/// numbered in the order of their names, no matter which rank wrote them.
/// @param directory the table's directory.
/// @throws Error if no tensor can be shown.
Discovery dcp_contents(const std::filesystem::path& directory, DcpTable table,
                       const SourceTreePtr& tree);

}  // namespace reshardfs
