// SPDX-License-Identifier: Apache-2.0
/// The fields of a layout as both file formats state them, to and from the types of Layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/strategy.h"

namespace reshardfs {

/// A list of numbers of a strategy file.
using Numbers = std::vector<std::int64_t>;

/// A flat tensor map: one entry for each dimension, -1 or an axis.
/// @throws Error kBadInput if a number is neither.
TensorMap tensor_map_from_flat(const Numbers& entries);

/// One dimension of a nested tensor map: axes, or -1 alone.
/// @throws Error kBadInput if the list is empty, mixes -1 with axes, or has other numbers.
std::vector<int> dimension_axes(const Numbers& axes);

/// Whether no dimension is cut by more than one axis, so that a flat tensor map can state it.
bool is_flat(const TensorMap& map);

/// The inverse of dimension_axes(): {-1} for a dimension that is not cut.
Numbers dimension_numbers(const std::vector<int>& axes);

/// What is done with every layout that was read: an optimizer shard of step 0 means that there is
/// no such cut, and is stored as size 0, so that nothing above has to look at the step.
/// @throws Error kBadInput if the layout is impossible.
void finish_layout(Layout& layout);

/// The step to write with optimizer_shard_size: the layout's, or, for a layout that was never in a
/// strategy file and has none, the distance of the devices that hold the same slice.
std::int64_t optimizer_step_to_write(const Layout& layout);

/// The operators to write with a strategy. The stage of a file is that of its first operator, so a
/// strategy of one later stage that has none gets one which does nothing but say so.
std::vector<OperatorStrategy> operators_to_write(const Strategy& strategy);

/// A layout as MindSpore's files can state it: lengths of dimension 0 as param_split_shape.
/// @param parameter for the message.
/// @throws Error kUnsupported if it has other uneven cuts, which these files would turn into even
///         ones without a word.
Layout mindspore_layout(const Layout& layout, const std::string& parameter);

}  // namespace reshardfs
