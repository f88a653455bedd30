// SPDX-License-Identifier: Apache-2.0
/// A file of a conversion by itself, under a name that the user chooses.
#pragma once

#include <filesystem>

#include "reshardfs/virtual_file.h"

#include "export/block_engine.h"

namespace reshardfs {

/// Writes `file` under `path`, where it appears when all of it is on disk.
/// @param replace whether a file of that name may be replaced.
/// @throws Error kUsage if something is there that may not be replaced; kMissing without the
///         directory; kIo; what reading throws. Interrupted. In each case nothing is left.
void export_file(const VirtualFile& file, const std::filesystem::path& path, bool replace,
                 const BlockEngineOptions& engine);

}  // namespace reshardfs
