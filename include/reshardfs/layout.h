// SPDX-License-Identifier: Apache-2.0
/// How one parameter is laid out over the devices of one pipeline stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/export.h"
#include "reshardfs/shape.h"

namespace reshardfs {

/// For each tensor dimension, the device-matrix axes that cut it, most significant first. Axes are
/// counted from the END of the device matrix (0 = last). An empty list: the dimension is not cut.
using TensorMap = std::vector<std::vector<int>>;

/// How one dimension is cut if its parts are not equally long. The tensor map gives the number of
/// parts.
struct DimensionSplit {
  /// Like numpy.array_split: the first (size modulo parts) parts are one element longer.
  bool balanced = false;
  /// Explicit lengths, one for each part; empty: equal, or as `balanced` says.
  std::vector<std::int64_t> lengths{};

  bool operator==(const DimensionSplit&) const = default;
};

/// A layout as a strategy file states it. Plain data: check_layout() checks what needs no shape,
/// and layout/slicing.h checks the rest.
struct Layout {
  /// Axis sizes, major first. The devices of a stage are numbered row-major over it from 0.
  std::vector<std::int64_t> device_matrix{};
  /// Which of these axes cut the tensor; one entry for each of its dimensions.
  TensorMap tensor_map{};
  /// Optimizer parallelism cuts the slice that the tensor map gives once more, along dimension 0,
  /// into this many parts. 0: no such cut; -1: one part for each device that holds the same slice.
  std::int64_t optimizer_shard_size = 0;
  /// Kept for conversion between strategy formats; reading a checkpoint does not need it.
  std::int64_t optimizer_shard_step = 0;

  /// Empty (all parts are equally long), or one for each tensor dimension. Only TOML rules set
  /// this; MindSpore's files use param_split_shape, for dimension 0 only.
  std::vector<DimensionSplit> uneven{};

  /// Uneven and field splits of manually split embeddings, as MindSpore's files have them:
  /// param_split_shape is one list with a length of dimension 0 for each distinct slice;
  /// field > 0: dimension 0 is [field, slices, rows], and every slice has rows of each field.
  std::vector<std::vector<std::int64_t>> param_split_shape{};
  /// Which rows of the table a slice holds, for lookups; kept for conversion between formats.
  std::vector<std::vector<std::int64_t>> indices_offset{};
  std::int64_t field = 0;

  /// From JSON strategies only; may be empty. The full shape, expanded if the tensor map is.
  Shape tensor_shape{};

  bool operator==(const Layout&) const = default;
};

/// The product of the device matrix: the number of ranks of one stage.
/// @throws Error kBadInput if an axis is < 1 or the product exceeds 2^20.
RESHARDFS_EXPORT std::int64_t device_count(const Layout& layout);

/// Checks everything that needs no shape: axis sizes are positive, the map's axes are in the device
/// matrix and not used twice, and the optimizer cut is >= -1.
/// @throws Error kBadInput with the wrong number.
RESHARDFS_EXPORT void check_layout(const Layout& layout);

/// "device matrix [2, 4], tensor map [0, -1], optimizer shard 2": for messages.
RESHARDFS_EXPORT std::string to_string(const Layout& layout);

}  // namespace reshardfs
