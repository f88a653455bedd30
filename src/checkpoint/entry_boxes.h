// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/catalogue.h"

namespace reshardfs {

/// The boxes of a parameter whose files say themselves where they are (see
/// FileIndex::box_offsets()); what is no box begins at 0. Where boxes are equal, that of the
/// lowest rank is read.
BoxPlacement boxes_of_entries(const Holders& holders, Shape full_shape);

}  // namespace reshardfs
