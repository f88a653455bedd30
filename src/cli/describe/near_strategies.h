// SPDX-License-Identifier: Apache-2.0
/// Strategies that lie where training jobs write them: in the directory of a checkpoint, above it,
/// and in output/ and strategy/ beside it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "check/diff_side.h"
#include "report/text/set_description.h"

namespace reshardfs {

/// Whether a file, or a directory of files, can be read as a strategy. What begins like a
/// checkpoint is not read.
bool is_strategy(const std::filesystem::path& path);

/// Files and directories near a checkpoint that are called a strategy, or have the extension .ckpt,
/// and are none of a checkpoint's files by their content, as the paths that a user would write.
/// Nothing for a source on a server.
/// @param source as the user names it.
/// @param follows_links false: what is a symbolic link is no candidate.
/// @param most of them, as each is opened.
std::vector<std::filesystem::path> find_near_strategies(const std::filesystem::path& source,
                                                        bool follows_links, std::size_t most = 8);

/// Which of them fit, and which state the same.
/// @param open lays the checkpoint out by a strategy; throws Error if it does not fit.
std::vector<NearStrategy> fit_near_strategies(
    const std::vector<std::filesystem::path>& found,
    const std::function<DiffSide(const std::filesystem::path&)>& open);

/// @param side laid out by a strategy.
/// @throws Error if the strategy is of another model, or of more ranks than have files.
void require_cover(const DiffSide& side);

/// Whether every part of all parameters is in a file.
bool can_be_mounted(const DiffSide& side);

}  // namespace reshardfs
