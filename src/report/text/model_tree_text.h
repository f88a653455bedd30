// SPDX-License-Identifier: Apache-2.0
/// A model's tree as lines for people.
#pragma once

#include <cstddef>
#include <string>

#include "base/engine.h"
#include "report/text/model_tree.h"
#include "report/text/terminal.h"

namespace reshardfs {

struct TreeStyle {
  std::size_t columns = kAnyWidth;  ///< at least 40; no line is longer
  /// Lines to stay in where `depth` does not say what is shown.
  std::size_t lines = kAnyHeight;
  /// Levels below the root; 0: as many as stay within `lines`, but one at least.
  std::size_t depth = 0;
  bool colour = false;
  bool utf8 = false;  ///< else ASCII
};

/// A heading, and a line for each node: its label, type and shape or what is below it, the ranks
/// that hold it (if tensors state any), elements, size, and its share of the whole. What is not
/// shown is counted in the last lines. Where columns are few, types have short names and labels are
/// shortened; then the bar is left out, the elements, the ranks, and types and shapes, in this
/// order.
RESHARDFS_ENGINE std::string tree_text(const TreeNode& root, const TreeStyle& style);

/// "8.03B", "124M", "950": three digits.
std::string human_count(std::uint64_t count);

}  // namespace reshardfs
