// SPDX-License-Identifier: Apache-2.0
/// Which part of a DTensor a process of a mesh has. Source: pytorch/pytorch
/// torch/distributed/tensor/placement_types.py and _utils.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "reshardfs/error.h"
#include "reshardfs/shape.h"

namespace reshardfs {

/// How one dimension of a mesh treats the tensor: Replicate, Shard or _StridedShard.
struct MeshPlacement {
  static constexpr std::int64_t kReplicate = -1;
  /// The dimension of the tensor that it cuts.
  std::int64_t dim = kReplicate;
  /// Of a strided shard: into how many parts the later dimensions of the mesh have cut the same
  /// dimension before. 1: it cuts in the order of the mesh.
  std::int64_t split_factor = 1;

  bool operator==(const MeshPlacement&) const = default;
};

/// Whether the ranks of a mesh ascend along one of its dimensions. PyTorch orders the processes
/// along a dimension by their ranks in some places (DTensor.full_tensor()), and by the mesh in
/// others (compute_local_shape_and_global_offset()): elsewhere, the order of parts is not certain.
/// @param ranks as many as the mesh has places, the last dimension running fastest.
bool ascends_along(std::size_t dimension, std::span<const std::int64_t> ranks,
                   std::span<const std::int64_t> sizes);
/// The error for a mesh of which they do not.
Error order_error();

struct MeshPart {
  Shape offsets{};
  Shape sizes{};
};

/// More is a damaged file.
inline constexpr std::size_t kMostMeshDimensions = 64;

/// The error for a DTensor whose part cannot be told. @param what goes on behind "it is a DTensor,
/// ".
Error dtensor_error(const std::string& what, ErrorKind kind = ErrorKind::kBadInput);

/// The part, in elements; it may be empty.
/// @param full of the whole tensor.
/// @param placements one for each dimension of the mesh, as `sizes` and `coordinates`; each
///        coordinate is less than the size.
/// @throws Error kBadInput or kUnsupported, without the file, if a placement cuts a dimension that
///         the tensor does not have, or a strided shard does not fit the mesh.
MeshPart part_on_mesh(const Shape& full, std::span<const MeshPlacement> placements,
                      std::span<const std::int64_t> sizes,
                      std::span<const std::int64_t> coordinates);

}  // namespace reshardfs
