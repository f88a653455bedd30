// SPDX-License-Identifier: Apache-2.0
/// Symbolic links among the files of a source. Whoever made the source chose where they lead.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace reshardfs {

/// A line about those that lead to something outside of `root`; nothing if none does.
/// @param links each exists or leads nowhere; the latter are passed over.
std::optional<std::string> links_outside(const std::filesystem::path& root,
                                         const std::vector<std::filesystem::path>& links);

}  // namespace reshardfs
