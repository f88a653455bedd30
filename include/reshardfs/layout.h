// SPDX-License-Identifier: Apache-2.0
/// How one parameter is laid out over the devices of one pipeline stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/export.h"
#include "reshardfs/shape.h"

namespace reshardfs {

/// For each tensor dimension the device-matrix axes that cut it, first axis major. An axis is
/// counted from the END of the device matrix (0 = last). An empty list: not cut.
using TensorMap = std::vector<std::vector<int>>;

/// How one dimension is cut into the parts that the tensor map asks for, where not evenly.
struct DimensionSplit {
  /// As numpy.array_split: the first (size modulo parts) parts are one element longer.
  bool balanced = false;
  /// Explicit lengths, one for each part; empty: even, or balanced.
  std::vector<std::int64_t> lengths{};

  bool operator==(const DimensionSplit&) const = default;
};

/// A layout as a strategy file states it. Plain data: nothing is checked until it meets a shape
/// (see check_layout() and layout/slicing.h).
struct Layout {
  /// Axis sizes, major first. The devices of a stage are numbered row-major over it from 0.
  std::vector<std::int64_t> device_matrix{};
  /// Which of these axes cut the tensor; with an entry for each of its dimensions.
  TensorMap tensor_map{};
  /// Optimizer parallel: the slice that the tensor map gives is cut once more along dimension 0 in
  /// this many parts. 0: no such cut; -1: as many parts as devices hold the same slice.
  std::int64_t optimizer_shard_size = 0;
  /// Written by MindSpore, never needed to read a checkpoint; kept for conversion between formats.
  std::int64_t optimizer_shard_step = 0;

  /// Empty (every cut is even), or one for each tensor dimension. From TOML rules alone;
  /// MindSpore's files say the same of dimension 0 with param_split_shape.
  std::vector<DimensionSplit> uneven{};

  /// Uneven and field splits of manually split embeddings, as MindSpore's files have them:
  /// param_split_shape is one list with a length of dimension 0 for each distinct slice;
  /// field > 0: dimension 0 is [field, slices, rows], and every slice has rows of each field.
  std::vector<std::vector<std::int64_t>> param_split_shape{};
  /// Which rows of the table a slice's rows are, for lookups; kept for conversion between formats.
  std::vector<std::vector<std::int64_t>> indices_offset{};
  std::int64_t field = 0;

  /// JSON strategies alone: the full shape, in expanded form where the map is (may be empty).
  Shape tensor_shape{};

  bool operator==(const Layout&) const = default;
};

/// The product of the device matrix: ranks of one stage.
/// @throws Error kBadInput if an axis is < 1 or the product exceeds 2^20.
RESHARDFS_EXPORT std::int64_t device_count(const Layout& layout);

/// Checks what can be checked without a shape: axis sizes, axes inside the device matrix, no axis
/// used twice, the optimizer cut >= -1.
/// @throws Error kBadInput with the offending number.
RESHARDFS_EXPORT void check_layout(const Layout& layout);

/// "device matrix [2, 4], tensor map [0, -1], optimizer shard 2": for messages.
RESHARDFS_EXPORT std::string to_string(const Layout& layout);

}  // namespace reshardfs
