// SPDX-License-Identifier: Apache-2.0
/// Errors for refusals by libfuse or fusermount3: their reason in one line, and what to do.
#pragma once

#include <string>

#include "reshardfs/error.h"

namespace reshardfs {

/// @param told libfuse's message about unknown mount options.
Error unknown_mount_option(const std::string& told);

/// @param told the messages of libfuse and fusermount3; may be empty.
Error cannot_mount(const std::string& told);

}  // namespace reshardfs
