// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuse/libfuse.h"

namespace reshardfs {

/// Adds the answers to requests about names: lookup, readlink and listings.
void add_directory_operations(fuse_lowlevel_ops& ops);

}  // namespace reshardfs
