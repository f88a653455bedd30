// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace reshardfs {

/// The directory above, as the user would write it: "a" for "a/b/", "./.." for ".". Empty: the
/// working directory.
std::filesystem::path path_above(const std::filesystem::path& path);

}  // namespace reshardfs
