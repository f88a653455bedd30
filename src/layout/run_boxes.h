// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/shape.h"

#include "layout/box_set.h"

namespace reshardfs {

/// The boxes that make up a run: the elements [first, last) of a tensor in C order. In that order,
/// each one is a run itself: the elements of its C order follow one another in the tensor's, too.
/// At most 2n - 1 for n dimensions.
/// @param shape of a tensor whose elements can be counted (element_count()).
std::vector<Box> boxes_of_run(const Shape& shape, std::int64_t first, std::int64_t last);

}  // namespace reshardfs
