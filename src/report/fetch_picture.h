// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "reshardfs/node_fetches.h"

#include "report/svg.h"

namespace reshardfs {

/// Bars for each node: what it needs, and what it fetches without and with a cache. Of more than 64
/// nodes, neighbors are drawn as one: the one of them that fetches the most.
/// @param nodes at least one.
void draw_fetches(const std::vector<NodeFetches>& nodes, Placement placement, BoundedWriter& out);

}  // namespace reshardfs
