// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/items/item_boxes.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

#include "reshardfs/error.h"

#include "format/torch/mesh_part.h"

namespace reshardfs {
namespace {

std::vector<std::int64_t> coordinates_in(const ItemMesh& mesh, std::int64_t rank) {
  const auto found = mesh.places.find(rank);
  if (found == mesh.places.end()) {
    throw dtensor_error("of whose mesh rank " + std::to_string(rank) + " is no part");
  }
  std::vector<std::int64_t> coordinates(mesh.sizes.size(), 0);
  auto rest = static_cast<std::int64_t>(found->second);
  for (std::size_t d = mesh.sizes.size(); d-- > 0;) {
    coordinates[d] = rest % mesh.sizes[d];
    rest /= mesh.sizes[d];
  }
  return coordinates;
}

MeshPart part_of(const ItemSharding& sharding, std::int64_t rank) {
  const std::vector<std::int64_t> coordinates = coordinates_in(*sharding.mesh, rank);
  return part_on_mesh(sharding.full_shape, sharding.placements, sharding.mesh->sizes, coordinates);
}

}  // namespace

const ItemGroup* group_of(const ItemTensor& tensor, std::int64_t rank) noexcept {
  // Ascending by their first ranks: most often, the rank's is the last that begins before it.
  auto group = std::upper_bound(
      tensor.groups.begin(), tensor.groups.end(), rank,
      [](std::int64_t wanted, const ItemGroup& other) { return wanted < other.ranks->front(); });
  while (group != tensor.groups.begin()) {
    --group;
    if (std::binary_search(group->ranks->begin(), group->ranks->end(), rank)) return &*group;
  }
  return nullptr;
}

std::vector<ItemBox> boxes_of(const ItemSharding& sharding, std::int64_t rank) {
  std::vector<ItemBox> boxes;
  const auto add = [&](ItemBox box) {
    const bool is_empty = std::find(box.sizes.begin(), box.sizes.end(), 0) != box.sizes.end();
    if (!is_empty) boxes.push_back(std::move(box));
  };
  if (sharding.mesh) {
    MeshPart part = part_of(sharding, rank);
    Shape local(part.sizes.size(), 0);
    add({std::move(part.offsets), std::move(local), std::move(part.sizes)});
    return boxes;
  }
  for (const ItemBox& box : sharding.boxes) add(box);
  const auto place = [](const ItemBox& box) { return std::tie(box.offsets, box.sizes); };
  std::stable_sort(boxes.begin(), boxes.end(),
                   [&](const ItemBox& a, const ItemBox& b) { return place(a) < place(b); });
  boxes.erase(std::unique(boxes.begin(), boxes.end(),
                          [&](const ItemBox& a, const ItemBox& b) { return place(a) == place(b); }),
              boxes.end());
  return boxes;
}

std::optional<Shape> stored_shape(const ItemSharding& sharding, std::int64_t rank) {
  if (!sharding.mesh) return std::nullopt;
  return part_of(sharding, rank).sizes;
}

}  // namespace reshardfs
