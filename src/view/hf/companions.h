// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "storage/source_tree.h"

namespace reshardfs {

/// Whether a file beside a model's config.json is one that programs load with the model or that
/// documents it: tokenizers, code, templates, the licence. Files with tensors and their indexes are
/// not.
bool is_companion(const std::string& file_name);

struct Companions {
  /// Paths below the directory, including "config.json"; those in a folder after all others.
  std::vector<std::filesystem::path> files{};
  /// Names of folders that may belong to the model, and of which nothing is taken.
  std::vector<std::string> left_out{};
};

/// The companions in a directory, and what is in the folders that a model of the hub is loaded
/// with: the modules of a sentence model ("1_Pooling", and those that modules.json names) with all
/// files, and further chat templates.
/// @param tree of the directory, if symbolic links are refused.
/// @throws Error as list_directory().
Companions companions_in(const std::filesystem::path& directory, const SourceTreePtr& tree);

}  // namespace reshardfs
