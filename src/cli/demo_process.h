// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reshardfs {

/// Runs this program with other arguments, as a user would, and waits for it.
/// @return its exit code; 3 if it was killed.
int run_self(const std::vector<std::string>& arguments);

/// A new directory below $TMPDIR or /tmp.
std::filesystem::path make_temporary_directory(const std::string& prefix);

}  // namespace reshardfs
