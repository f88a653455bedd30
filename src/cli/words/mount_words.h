// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/words/given.h"

namespace reshardfs {

/// Whether a command has -o.
bool takes_mount_words(const Command& command);

/// Adds what a list of mount options says: "ro,allow_other,uid=0".
/// @throws Error kUsage for a key that is like one of the command's.
void add_mount_words(const std::string& list, Given& given);

}  // namespace reshardfs
