// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/catalogue.h"

namespace reshardfs {

/// The boxes of a parameter whose files state their offsets (see FileIndex::box_offsets()); an
/// entry without offsets begins at 0. Of equal boxes, the lowest rank's is read.
BoxPlacement boxes_of_entries(const Holders& holders, Shape full_shape);

}  // namespace reshardfs
