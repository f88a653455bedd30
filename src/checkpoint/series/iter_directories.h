// SPDX-License-Identifier: Apache-2.0
/// The directories in which Megatron-LM saves iterations, in any of its formats.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/series/step_directories.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// "10" for "iter_0000010".
std::optional<std::string> parse_iter_directory(std::string_view name);

/// iter_0000010, ..., or release/ if the tracker names it. Nothing if the directory has no steps as
/// Megatron names them: the tracker alone is another framework's, too.
/// @throws as list_steps().
std::optional<StepDirectories> find_iters(const std::filesystem::path& directory,
                                          const SourceTreePtr& tree, bool needs_tracker);

}  // namespace reshardfs
