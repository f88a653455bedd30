// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/checkpoint.h"

#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// The result of read_contents() for an open set.
CheckpointContents contents_of(const CheckpointSet& set);

}  // namespace reshardfs
