// SPDX-License-Identifier: Apache-2.0
/// The mount that this process serves, or is going to. A look at a file in it waits for this
/// process: for ever, if it is the one that looks. So what a link in a source leads to there is
/// taken as missing, as it was when the mount was made.
#pragma once

#include <filesystem>

namespace reshardfs {

/// @param place without symbolic links. Call it before other threads look at files.
void set_own_mount(const std::filesystem::path& place);

/// Whether a path leads there. Looks at nothing in it.
bool leads_into_own_mount(const std::filesystem::path& path);
/// The same of a name in an open directory.
bool leads_into_own_mount(int directory, const char* name);

}  // namespace reshardfs
