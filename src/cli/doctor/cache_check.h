// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "cli/doctor/finding.h"

namespace reshardfs {

/// Whether a directory will do for --cache-dir: its kind, owner and mode, whether locks work in it,
/// and whether the disk has the room that the cache may take. Makes no directory, and leaves no
/// file. May wait for the file system.
/// @param max_bytes of --cache-size.
Findings check_cache(const std::filesystem::path& directory, std::uint64_t max_bytes);

}  // namespace reshardfs
