// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "plan/reading/content.h"
#include "plan/source/cell_grid.h"

namespace reshardfs {

/// Whether two holdings have the same type, shape and bytes. Reads in blocks and stops at the
/// first difference.
/// @param limit compare at most this many bytes from the start.
bool content_equal(const Holding& a, const Holding& b,
                   std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());

/// Whether all files that hold the same cell of a grid have the same bytes of it. Reads them all.
bool are_replicas_equal(const CellGrid& grid);

}  // namespace reshardfs
