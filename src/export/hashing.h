// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "export/block_engine.h"

namespace reshardfs {

/// Hashes files of a conversion without writing them.
/// @param done called for each file in their order, as soon as those before it are done; never
///        from two threads at once.
/// @throws Error of a file's read_at(); Interrupted.
void hash_files(const std::vector<const OutputFile*>& files, const BlockEngineOptions& options,
                const std::function<void(const OutputFile& file, const std::string& sha256)>& done);

}  // namespace reshardfs
