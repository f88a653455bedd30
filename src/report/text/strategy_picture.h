// SPDX-License-Identifier: Apache-2.0
/// Strategies as text pictures of at most 80 columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/rank.h"

namespace reshardfs {

/// The ranks of a stage on their device matrix: the last axis runs across, the others down.
/// @param first_rank that of the stage's first device.
std::string device_matrix_picture(const std::vector<std::int64_t>& device_matrix, Rank first_rank);

/// Which part of a parameter each rank holds: a grid of dimension 0 (down) and 1 (across), with
/// the ranks of each part; a list where a grid would not fit or there are more cut dimensions.
std::string slice_picture(const Layout& layout, Rank first_rank);

}  // namespace reshardfs
