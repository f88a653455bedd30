// SPDX-License-Identifier: Apache-2.0
/// What the commands that compare data share.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace reshardfs {

/// The path that an option names, absolute; nothing for no text and "none".
/// @throws Error kMissing with the option if there is nothing.
std::optional<std::filesystem::path> existing_path(const std::string& text,
                                                   const std::string& option,
                                                   const std::string& takes);

/// -j, --jobs.
void add_jobs_option(CLI::App& command, std::size_t& jobs);

}  // namespace reshardfs
