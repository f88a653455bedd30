// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reshardfs {

/// Whether a file beside a model's config.json belongs to what loads the model: tokenizers, code,
/// templates, its licence. Files with tensors and their indexes do not.
bool is_companion(const std::string& file_name);

/// The companions in a directory, sorted by name; config.json is one of them. Directories are none.
/// @throws Error as list_directory().
std::vector<std::filesystem::path> companions_in(const std::filesystem::path& directory);

}  // namespace reshardfs
