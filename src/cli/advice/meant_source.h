// SPDX-License-Identifier: Apache-2.0
/// The checkpoint that was meant where another path was named as one.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace reshardfs {

struct MeantSource {
  /// As the user would write it. Empty: there are several, and only the user knows which.
  std::filesystem::path source{};
  /// What the path that was named is, as the end of a sentence about it: "is one file of ...".
  std::string what{};
  /// The path is a strategy, to be named as that.
  bool is_strategy = false;
  /// The path is a file of the checkpoint; a message that says of which kind says more than `what`.
  bool is_part = false;
};

/// Looks above the path, beside it, and in its directories down to the second level.
/// @param named a path that cannot be opened as a checkpoint, as the user names it.
/// @param opens whether a directory can be opened as a checkpoint.
/// @return nothing if no checkpoint was found.
std::optional<MeantSource> meant_source(
    const std::filesystem::path& named,
    const std::function<bool(const std::filesystem::path&)>& opens);

}  // namespace reshardfs
