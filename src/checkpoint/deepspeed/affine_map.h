// SPDX-License-Identifier: Apache-2.0
/// How ranks of tensor parallelism share parameters: what DeepSpeed's AutoTP states since 0.19 as
/// `affine_map` (deepspeed/checkpoint/affine_map.py).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reshardfs/shape.h"

#include "format/torch/pickle_tree.h"

namespace reshardfs {

/// A box of a parameter, in elements. A rank's shard has it as a box, too.
struct AffinePiece {
  Shape shape{};
  Shape in_whole{};  ///< where it begins in the parameter
  Shape in_shard{};

  bool operator==(const AffinePiece&) const = default;
};

struct AffineShard {
  Shape shape{};
  /// All elements of the shard, each once.
  std::vector<AffinePiece> pieces{};

  bool operator==(const AffineShard&) const = default;
};

struct AffineTensor {
  Shape shape{};                      ///< of the whole parameter
  std::vector<AffineShard> shards{};  ///< by the rank of tensor parallelism
  /// Why it cannot be put together; empty: it can.
  std::string refused{};

  bool operator==(const AffineTensor&) const = default;
};

/// By parameter.
using AffineMap = std::map<std::string, AffineTensor>;

/// @param info `universal_checkpoint_info`.
/// @return empty if it has no such map.
/// @throws Error kUnsupported or kBadInput, without the file, if the map is of another version, or
///         contradicts itself.
AffineMap read_affine_map(const PickleTree& tree, PickleValue info);

}  // namespace reshardfs
