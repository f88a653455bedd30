// SPDX-License-Identifier: Apache-2.0
/// metadata.json of MindSpore Transformers' Checkpoint 2.0: what a step's files hold, and how each
/// parameter is laid out. Source: mindformers/checkpoint/metadata.py.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/rank.h"
#include "reshardfs/shape.h"

#include "storage/byte_source.h"

namespace reshardfs {

/// A parameter's layout as the metadata states it. What holds: the product of the device matrix is
/// the number of ranks, each axis is used at most once, no rank stands twice.
struct RecordedLayout {
  std::vector<std::int64_t> device_matrix;  ///< axis sizes, major first
  /// Of each dimension, and perhaps of one more, the axes that cut it, the first the major one.
  /// Numbers count from the last axis of the device matrix; none is left of what was -1.
  TensorMap tensor_map;
  bool interleaved = false;
  std::vector<std::string> axis_names;  ///< of the device matrix, one each; or none
  std::vector<Rank> ranks;  ///< the rank at each place, row-major over the device matrix

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const RecordedLayout&) const = default;
};

/// A file that is said to hold a slice.
struct StoredShard {
  std::uint32_t file = 0;  ///< position in IterationMetadata::files
  Rank rank;               ///< whose slice it is
  // NOLINTNEXTLINE(modernize-use-nullptr): as above
  auto operator<=>(const StoredShard&) const = default;
};
/// In the order of the metadata; many slices share one.
using StoredShards = std::shared_ptr<const std::vector<StoredShard>>;

struct RecordedSlice {
  std::uint64_t number = 0;  ///< as the shard id has it: a box's number is not always this
  StoredShards stored;
  // NOLINTNEXTLINE(modernize-use-nullptr): as above
  auto operator<=>(const RecordedSlice&) const = default;
};
/// Ascending by number, and none stands twice; many parameters share one.
using RecordedSlices = std::shared_ptr<const std::vector<RecordedSlice>>;

struct RecordedParameter {
  std::string name;
  Shape global_shape;
  std::shared_ptr<const RecordedLayout> layout;  ///< nullptr: every file holds the whole
  RecordedSlices slices;                         ///< never null; may be empty
};

struct IterationMetadata {
  std::vector<std::string> files;             ///< plain names, in the step's directory
  std::vector<RecordedParameter> parameters;  ///< no name stands twice
};

/// More than any job has of what there may be in the whole file.
struct MetadataLimits {
  std::size_t parameters = 2'000'000;
  std::size_t slices = 50'000'000;
};

/// Reads it as a stream: memory grows with what is returned, not with the file. Keys may stand in
/// any order; what no reader needs (chunk, replica_id, rank_group ...) is passed over.
/// @throws Error kBadInput with the parameter: no JSON, a key that is missing or stands twice, a
///         malformed layout, a shard id that Python does not write, a file that is not in the
///         directory, a parameter without global_shape, a rank from kMaxRanks on, more than one of
///         the limits; what `source` throws.
IterationMetadata read_iteration_metadata(const ByteSource& source,
                                          const MetadataLimits& limits = {});

}  // namespace reshardfs
