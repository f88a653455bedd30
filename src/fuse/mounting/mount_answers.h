// SPDX-License-Identifier: Apache-2.0
/// What to answer where libfuse or fusermount3 refuses: theirs in one line, and what to do.
#pragma once

#include <string>

#include "reshardfs/error.h"

namespace reshardfs {

/// @param told by libfuse about mount options that it does not know.
Error unknown_mount_option(const std::string& told);

/// @param told by libfuse and fusermount3; lines, or nothing.
Error cannot_mount(const std::string& told);

}  // namespace reshardfs
