// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace reshardfs {

/// Writes a small file so that its name never stands for half of it: under a temporary name
/// beside it, synced, then renamed.
/// @param replace whether a file of that name may be replaced.
/// @throws Error kUsage if it exists and may not be replaced, kIo.
void write_file(const std::filesystem::path& path, std::string_view bytes, bool replace);

}  // namespace reshardfs
