// SPDX-License-Identifier: Apache-2.0
/// Tensors to whose elements a model map adds a constant. Each is computed when it is read, as a
/// tensor behind the end of a file, so that no bytes of the file pass for its own.
#pragma once

#include "checkpoint/ranks/rank_file.h"
#include "modelmap/mapping.h"
#include "plan/source/cell_grid.h"

namespace reshardfs {

/// @param grid of the elements without the constant; complete when they are read.
/// @param beside the file behind whose end it stands; it must outlive the result.
/// @throws Error kBadInput if it becomes too large.
RankFile with_constant(const CellGridPtr& grid, const modelmap::TargetTensor& target,
                       const RankFile& beside);

/// The grid of the only tensor in such a file, which must outlive it. It is complete if the grid
/// without the constant is.
CellGridPtr grid_of_computed(const CellGrid& grid, const RankFile& computed);

}  // namespace reshardfs
