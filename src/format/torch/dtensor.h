// SPDX-License-Identifier: Apache-2.0
/// torch.distributed.tensor.DTensor: a tensor of which each process has a part. The object that a
/// process saves states the mesh of processes, how the tensor is placed on it, and where in the
/// mesh it is. An older class, ShardedTensor, states the place of the part itself.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "format/torch/mesh_part.h"
#include "format/torch/pickle_tree.h"

namespace reshardfs {

/// Where a part is in the full tensor.
struct DTensorPlace {
  Shape full_shape{};
  Shape offsets{};
  Shape sizes{};
  std::int64_t rank = 0;  ///< of the process that has it, as the mesh counts them
};

struct DTensorPart {
  DTensorPlace place;
  PickleValue local{};  ///< the tensor that the process has; kUnset: it has nothing
  /// The mesh and the placements that state the place; empty for a ShardedTensor, which states it
  /// itself.
  std::vector<std::int64_t> mesh_sizes{};
  std::vector<MeshPlacement> placements{};
};

bool is_dtensor(const PickleTree& tree, PickleValue value) noexcept;

/// Where in a mesh a process is: tensors share meshes, which may have many ranks.
struct DTensorMesh {
  std::vector<std::int64_t> sizes{};
  std::vector<std::int64_t> coordinates{};
  std::int64_t rank = 0;
};
/// Those of one tree that were read, by the bits of their values.
using DTensorMeshes = std::unordered_map<std::uint64_t, DTensorMesh>;

/// @throws Error kUnsupported or kBadInput that says why its part cannot be told, without the file:
///         partial values, other placements, and strided shards that do not fit the mesh.
DTensorPart read_dtensor(const PickleTree& tree, PickleValue value, DTensorMeshes& meshes);
inline DTensorPart read_dtensor(const PickleTree& tree, PickleValue value) {
  DTensorMeshes meshes;
  return read_dtensor(tree, value, meshes);
}

}  // namespace reshardfs
