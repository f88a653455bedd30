// SPDX-License-Identifier: Apache-2.0
/// A model's parameters as a tree, by the segments of their names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/engine.h"

namespace reshardfs {

/// A parameter, or the slices of one that look alike.
struct ModelTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape{};             ///< of one copy
  std::uint64_t bytes = 0;   ///< of one copy
  std::uint64_t copies = 1;  ///< slices or replicas that are counted
  std::string ranks{};       ///< that hold these copies, for people; empty: not to be shown
};

struct TreeNode {
  /// "attention", "layers.{0..31}": what the name has beyond that of the node above.
  std::string label{};
  /// Siblings of equal structure that this node stands for; all numbers are of them together.
  std::uint64_t repeated = 1;
  std::uint64_t parameters = 0;  ///< names
  std::uint64_t elements = 0;    ///< of arrays
  std::uint64_t bytes = 0;
  std::vector<DType> dtypes{};  ///< each once, ascending
  /// Of one parameter (and those like it in repeated siblings): the shapes of its slices, each
  /// once, and how many slices there are. Of others empty and 0.
  std::vector<Shape> shapes{};
  std::uint64_t tensors = 0;
  std::string ranks{};               ///< of all tensors below, if they are the same ones
  std::vector<TreeNode> children{};  ///< in the order of the parameters
};

/// The tree below a node for everything, whose label is empty. Names are split before '.' and '/';
/// nodes with a single child become one with it. Siblings that differ in a number alone, and have
/// the same names, types, shapes and ranks below them, become one: always where they are that
/// number
/// ("layers.0"), from three on where there is more ("expert_0"). Tensors of one name are one
/// parameter. Time and memory grow with the parameters, whatever their names are like.
RESHARDFS_ENGINE TreeNode model_tree(std::span<const ModelTensor> tensors);

/// "{0..31}", "{0,2..5}"; of many ranges the first and the last.
/// @param numbers ascending, at least one.
/// @param digits to fill up with zeros.
std::string number_set(std::span<const std::uint64_t> numbers, std::size_t digits);

}  // namespace reshardfs
