// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace reshardfs {

/// Whether an export of ours has written the source, and its options left out a part of the model
/// (--include, --exclude, --partial): its manifest, in that directory or above it, says so.
bool is_exported_part(const std::filesystem::path& source);

}  // namespace reshardfs
