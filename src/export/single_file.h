// SPDX-License-Identifier: Apache-2.0
/// A file of a conversion by itself, under a name that the user chooses.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "reshardfs/virtual_file.h"

#include "export/block_engine.h"
#include "export/exporter.h"

namespace reshardfs {

/// Writes `file` under `path`, where it appears when all of it is on disk. Goes on with what a
/// process before this one has left of it.
/// @param source of the conversion.
/// @param identity see conversion_identity(): the same exactly if the file has the same bytes.
/// @param replace whether a file of that name may be replaced.
/// @throws Error kUsage if an existing file may not be replaced, another process is writing it, or
///         the directory would be read as other files there; kMissing if the directory does not
///         exist; kIo; errors of reading. Interrupted. What is left then is as for
///         export_conversion().
ExportResult export_file(std::shared_ptr<const VirtualFile> file, const std::filesystem::path& path,
                         const std::filesystem::path& source, const std::string& identity,
                         bool replace, const BlockEngineOptions& engine);

}  // namespace reshardfs
