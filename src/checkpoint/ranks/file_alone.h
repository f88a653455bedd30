// SPDX-License-Identifier: Apache-2.0
/// One file that the user named, or the only one of a directory, which may be a part of something
/// larger.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/completeness.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/ranks/rank_file.h"

namespace reshardfs {

/// Which part of which whole the file is, by its name and what lies beside it; empty: of none.
std::string part_words(const std::filesystem::path& file);

/// Whether a rank's file lies where others must be or are, by its name and that of its directory.
bool is_one_of_several(const std::filesystem::path& file);

/// Adds a doubt if what the file contains shows that it is one rank's part of a model.
/// @param files the file, open.
void state_part(const std::vector<RankFile>& files, Completeness& out);

/// Sets the completeness of files that a pattern found, or of a single file.
/// @param files all that were found. @param out its files and its step are chosen from these.
void state_files(const SourceFiles& files, const std::filesystem::path& source, Discovery& out);

}  // namespace reshardfs
