// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/export.h"

namespace reshardfs {

/// Elements along each dimension, outermost first (C order). Empty: a scalar. Never negative.
using Shape = std::vector<std::int64_t>;

/// The product of the dimensions (1 for a scalar).
/// @throws Error kBadInput if a dimension is negative or the product exceeds 2^63-1.
RESHARDFS_EXPORT std::int64_t element_count(const Shape& shape);

/// "[4, 16]"
RESHARDFS_EXPORT std::string to_string(const Shape& shape);

}  // namespace reshardfs
