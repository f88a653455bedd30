// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/words/given.h"

namespace reshardfs {

/// @param given of `mount`, with a source and a mount point.
/// @throws Error kUsage if the source is an empty directory and the mount point a checkpoint: then
///         the two were given in the wrong order.
void refuse_swapped_places(const Given& given);

}  // namespace reshardfs
