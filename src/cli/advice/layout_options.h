// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/words/given.h"

namespace reshardfs {

/// What --src-strategy must be for a checkpoint whose ranks hold slices: the only strategy near it
/// that fits, or sizes that its slices prove. Reads the headers of its files.
/// @param source as the user names it.
/// @param given has the options by which the source is opened.
/// @return nothing if the checkpoint needs none, or if none is known.
std::optional<std::string> known_layout(const std::string& source, const Given& given);

/// The command line with the option that known_layout() finds, unless it has that option.
/// @param place of the source among the arguments.
Given with_known_layout(Given given, std::size_t place, const std::string& option);

/// Whether it can be opened as a checkpoint.
bool opens(const std::string& source, const Given& given);

/// Whether a strategy is of no more ranks than have files. False if either cannot be read.
bool has_files_of_all_ranks(const std::filesystem::path& strategy, const std::string& source,
                            const Given& given);

/// Whether a strategy lays out the whole checkpoint. False if either cannot be read.
bool lays_out(const std::filesystem::path& strategy, const std::string& source, const Given& given);

}  // namespace reshardfs
