// SPDX-License-Identifier: Apache-2.0
/// What the names of files and directories state of a set with a file for each rank.
#pragma once

#include <filesystem>

#include "checkpoint/ranks/discovery.h"

namespace reshardfs {

/// Sets the completeness of files that a pattern found, or of a single file.
/// @param files all that were found. @param out its files and its step are chosen from these.
void state_files(const SourceFiles& files, const std::filesystem::path& source, Discovery& out);

}  // namespace reshardfs
