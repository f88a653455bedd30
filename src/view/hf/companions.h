// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reshardfs {

/// Whether a file beside a model's config.json is one that programs load with the model or that
/// documents it: tokenizers, code, templates, the licence. Files with tensors and their indexes are
/// not.
bool is_companion(const std::string& file_name);

/// The companions in a directory, sorted by name, including config.json. Subdirectories are left
/// out.
/// @throws Error as list_directory().
std::vector<std::filesystem::path> companions_in(const std::filesystem::path& directory);

}  // namespace reshardfs
