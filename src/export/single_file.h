// SPDX-License-Identifier: Apache-2.0
/// A file of a conversion by itself, under a name that the user chooses.
#pragma once

#include <filesystem>

#include "reshardfs/virtual_file.h"

#include "export/block_engine.h"

namespace reshardfs {

/// Writes `file` under `path`, where it appears when all of it is on disk.
/// @param replace whether a file of that name may be replaced.
/// @throws Error kUsage if an existing file may not be replaced; kMissing if the directory does not
///         exist; kIo; errors of reading. Interrupted. In each case no partial file is left.
void export_file(const VirtualFile& file, const std::filesystem::path& path, bool replace,
                 const BlockEngineOptions& engine);

}  // namespace reshardfs
