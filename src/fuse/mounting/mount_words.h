// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "fuse/mount_options.h"

namespace reshardfs {

/// A value for a list of mount options: `\` and `,` mean something there.
std::string escape_option_value(std::string_view value);

/// The words after -o: the caller's own, then those that are always set, so that these win.
/// @throws Error kUsage if a word contradicts them.
std::string mount_words(const MountOptions& options);

}  // namespace reshardfs
