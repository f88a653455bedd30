// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "reshardfs/layout.h"
#include "reshardfs/shape.h"

namespace reshardfs {

/// Undoes the expansion that MindSpore's JSON strategies contain.
///
/// A dimension cut by several axes, [[1, 0], [-1]], is written to JSON as several dimensions with
/// one axis each, [1, 0, -1], beside the expanded shape. This joins neighbouring expanded
/// dimensions again, until the layout has as many dimensions as `shape`.
///
/// A layout without a tensor map on one device (pipeline parallelism alone) becomes one that cuts
/// none of the shape's dimensions.
///
/// @param shape the slice's shape (is_slice) or the full tensor's.
/// @return the folded layout, its tensor_shape folded too; the layout itself if nothing needs to
///         be folded.
/// @throws Error kBadInput if there is no way to fold it to this shape, or more than one.
Layout fold_expanded(const Layout& layout, const Shape& shape, bool is_slice);

}  // namespace reshardfs
