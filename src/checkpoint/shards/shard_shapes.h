// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/completeness.h"
#include "checkpoint/ranks/rank_file.h"
#include "checkpoint/whole/model_shapes.h"

namespace reshardfs {

/// Files beside a sharded model that state the sizes of its tensors.
struct ShardEvidence {
  std::int64_t shards = 0;
  /// Whether each file name has the number of its shard.
  bool numbered = false;
  ModelShapes config{};
  /// The index of the same model in whole tensors; empty: there is none.
  std::filesystem::path index{};
  /// The bytes of all tensors, according to that index.
  std::optional<std::uint64_t> total_bytes{};
};

/// A shard states where its parts of tensors begin, but not the full shapes. The following evidence
/// proves that the parts reach the end:
/// - the sum of all bytes in the index;
/// - the shape in config.json, for known names;
/// - a tensor with the same number of rows: the bias of a weight, the output for the embedding;
/// - a tensor whose rows config.json states, if each shard has an equal part, and parts would be
///   smaller with more shards: then these are all shards (torch.distributed cuts with torch.chunk).
/// @param files of all shards. RankFile::part is the number of a numbered shard.
/// @param out gets parameters that are too short, parameters without proof, and the evidence.
void state_shapes(const ShardEvidence& evidence, const std::vector<RankFile>& files,
                  Completeness& out);

}  // namespace reshardfs
