// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/layout.h"

namespace reshardfs {

/// States the optimizer's cut in the tensor map: the same slices on the same devices, with
/// optimizer_shard_size 0. The axes that cut nothing else follow in dimension 0's list, the last
/// ones first to be taken; of the leftmost that is needed a part may remain, and then it becomes
/// two axes. Device matrix and tensor map alone are kept; trailing entries of an expanded map must
/// have been folded (fold_expanded()).
///
/// Source: MindSpore's parallel/strategy.py, _get_tensor_map_for_opt_shard, which stops one axis
/// too early where the devices that remain replicas are exactly its leading axes: this does not.
/// @throws Error kBadInput as DeviceGrid does; kUnsupported if no list of axes states the cut, as
///         for 2 parts over axes [2, 3].
Layout with_optimizer_axes(const Layout& layout);

}  // namespace reshardfs
