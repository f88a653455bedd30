// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace reshardfs {

/// "did you mean 'DIR/NAME'?" if a path that does not exist resembles another one in its directory,
/// or is a URL that has lost a slash; otherwise empty.
std::string did_you_mean_path(const std::filesystem::path& path) noexcept;

}  // namespace reshardfs
