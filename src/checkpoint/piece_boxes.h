// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/catalogue.h"

namespace reshardfs {

/// The boxes of a parameter whose files say themselves where their pieces are (see
/// FileIndex::piece_offsets()); what is no piece begins at 0. Where boxes are equal, that of the
/// lowest rank is read.
BoxPlacement boxes_of_pieces(const Holders& holders, Shape full_shape);

}  // namespace reshardfs
