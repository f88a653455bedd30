// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reshardfs {

/// @throws Error kUsage if the source is an empty directory and the mount point a checkpoint: then
///         the two were given in the wrong order.
void refuse_swapped_places(const std::string& source, const std::string& mountpoint);

}  // namespace reshardfs
