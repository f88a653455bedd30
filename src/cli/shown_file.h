// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reshardfs/conversion.h"

#include "base/engine.h"

namespace reshardfs {

/// The file at a path as in the mount ("rank_0/checkpoint_0.ckpt"), hidden ones too.
/// @throws Error kMissing: names some of those that are there.
RESHARDFS_ENGINE const OutputFile& shown_file(const Conversion& conversion,
                                              const std::string& path);

}  // namespace reshardfs
