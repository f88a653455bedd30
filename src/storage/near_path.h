// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace reshardfs {

/// For a path that does not exist: "did you mean 'DIR/NAME'?" if one of its names resembles another
/// one in its directory, or it is a URL that has lost a slash; "...: mount DIR" if its file system
/// is not mounted; otherwise empty.
std::string did_you_mean_path(const std::filesystem::path& path) noexcept;

}  // namespace reshardfs
