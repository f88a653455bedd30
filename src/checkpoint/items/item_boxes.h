// SPDX-License-Identifier: Apache-2.0
/// Which boxes of a tensor a rank has, by a table of torch_checkpointing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reshardfs/shape.h"

#include "checkpoint/items/item_table.h"

namespace reshardfs {

/// The group that a rank is in; nullptr: it holds nothing.
const ItemGroup* group_of(const ItemTensor& tensor, std::int64_t rank) noexcept;

/// The boxes that a rank of the group stores, each once; those without elements are left out.
/// @throws Error as part_on_mesh() does; kBadInput if the rank is not in the mesh.
std::vector<ItemBox> boxes_of(const ItemSharding& sharding, std::int64_t rank);

/// The shape of what a rank of the group stores; nullopt if it may be larger than its boxes.
/// @throws Error as boxes_of() does.
std::optional<Shape> stored_shape(const ItemSharding& sharding, std::int64_t rank);

}  // namespace reshardfs
