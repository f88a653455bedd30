// SPDX-License-Identifier: Apache-2.0
/// Where the numbers behind one parameter come from, and the bytes that follow from them.
#pragma once

#include <string>

#include "conversion/model_maps.h"
#include "modelmap/mapping.h"
#include "plan/source/cell_grid.h"

namespace reshardfs {

/// "rule of FILE:LINE, reads ...", and a line for each variable with its value and origin.
std::string explanation_text(const ModelMaps::Explanation& explanation);

/// The variables of one tensor, as explanation_text() has them; empty if there are none.
std::string values_text(const std::vector<modelmap::VariableValue>& values);

/// The same in one line, with the first ranges that the tensor is read from: "F = 12 (the shape of
/// 'w'); bytes: FILE offset 64, 128 bytes". Empty if neither is known.
/// @param grid nullptr: the ranges are not known.
std::string why_line(const std::vector<modelmap::VariableValue>& values, const CellGridPtr& grid);

/// "w: device matrix [2, 4], tensor map [1, -1] (the source strategy)"; what is not cut has words
/// for that.
std::string layout_text(const SourceTable& table, const std::string& name);

/// The first ranges of source files that the whole parameter is read from, in its own order: file,
/// offset and length in bytes. At most 16 lines.
std::string ranges_text(const CellGridPtr& grid);

}  // namespace reshardfs
