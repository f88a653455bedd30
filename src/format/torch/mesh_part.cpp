// SPDX-License-Identifier: Apache-2.0
#include "format/torch/mesh_part.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/checked.h"

namespace reshardfs {
namespace {

/// By dimension of the tensor, the mesh dimensions that cut it, in the order in which they do.
using Cuts = std::map<std::size_t, std::vector<std::size_t>>;

/// A strided shard cuts what the later mesh dimensions have left that cut the same dimension: its
/// split_factor is the number of their parts.
void insert_behind_later(std::size_t dimension, std::int64_t expected,
                         std::span<const std::int64_t> sizes, std::vector<std::size_t>& order) {
  std::int64_t parts = 1;
  auto end = order.begin();
  for (auto other = order.begin(); other != order.end(); ++other) {
    if (*other < dimension) continue;
    parts = mul_or_throw(parts, sizes[*other], "the number of parts of a tensor");
    end = other + 1;
  }
  if (parts != expected) {
    throw dtensor_error("a strided shard with split_factor " + std::to_string(expected) +
                            ", while the later dimensions of its mesh cut it into " +
                            std::to_string(parts),
                        ErrorKind::kUnsupported);
  }
  order.insert(end, dimension);
}

Cuts cuts_of(std::span<const MeshPlacement> placements, std::span<const std::int64_t> sizes,
             std::size_t dimensions) {
  Cuts cuts;
  std::vector<std::size_t> strided;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const MeshPlacement& placement = placements[i];
    if (placement.dim == MeshPlacement::kReplicate) continue;
    if (placement.dim < 0 || placement.dim >= static_cast<std::int64_t>(dimensions)) {
      throw dtensor_error("cut along a dimension that it does not have");
    }
    std::vector<std::size_t>& order = cuts[static_cast<std::size_t>(placement.dim)];
    if (placement.split_factor == 1) {
      order.push_back(i);
    } else {
      strided.push_back(i);
    }
  }
  for (auto i = strided.rbegin(); i != strided.rend(); ++i) {
    const MeshPlacement& placement = placements[*i];
    insert_behind_later(*i, placement.split_factor, sizes,
                        cuts.at(static_cast<std::size_t>(placement.dim)));
  }
  return cuts;
}

}  // namespace

Error dtensor_error(const std::string& what, ErrorKind kind) {
  return Error(kind, "it is a DTensor, " + what);
}

bool ascends_along(std::size_t dimension, std::span<const std::int64_t> ranks,
                   std::span<const std::int64_t> sizes) {
  std::size_t stride = 1;
  for (std::size_t d = dimension + 1; d < sizes.size(); ++d) {
    stride *= static_cast<std::size_t>(sizes[d]);
  }
  const auto size = static_cast<std::size_t>(sizes[dimension]);
  for (std::size_t i = 0; i + stride < ranks.size(); ++i) {
    const bool is_last = i / stride % size == size - 1;
    if (!is_last && ranks[i] >= ranks[i + stride]) return false;
  }
  return true;
}

Error order_error() {
  return dtensor_error(
      "on a mesh whose ranks do not ascend, so that the order of its parts is not certain",
      ErrorKind::kUnsupported);
}

MeshPart part_on_mesh(const Shape& full, std::span<const MeshPlacement> placements,
                      std::span<const std::int64_t> sizes,
                      std::span<const std::int64_t> coordinates) {
  if (placements.size() != sizes.size()) {
    throw dtensor_error("whose placements do not fit its mesh");
  }
  MeshPart out{Shape(full.size(), 0), full};
  for (const auto& [d, order] : cuts_of(placements, sizes, full.size())) {
    // Each mesh dimension cuts what those before it have left, by the rule of torch.chunk: all
    // parts have the same length, rounded up, but for the last ones that have any.
    for (const std::size_t i : order) {
      const std::int64_t length = out.sizes[d];
      const std::int64_t part = length / sizes[i] + (length % sizes[i] != 0 ? 1 : 0);
      // A coordinate is below the size: the product stays below the length and one part.
      const std::int64_t begin = std::min(part * coordinates[i], length);
      out.offsets[d] += begin;
      out.sizes[d] = std::min(part, length - begin);
    }
  }
  return out;
}

}  // namespace reshardfs
