// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/rank_files.h"

namespace reshardfs {

/// What was found below a source directory, and how.
struct SourceFiles {
  std::string pattern;  ///< empty: the source is one file
  RankFiles found;
  std::vector<std::string> notes;
};

/// The files that `wanted` finds; without one, the known patterns are tried in order.
/// @throws Error kMissing if no file is found, kUnsupported if there are safetensors files only.
SourceFiles find_by_pattern(const std::filesystem::path& root, const std::string& wanted);

/// @throws Error kUnsupported if the name says that it is a safetensors file.
SourceFiles take_one_file(const std::filesystem::path& path, const std::string& wanted);

}  // namespace reshardfs
