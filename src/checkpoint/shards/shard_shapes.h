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

/// What lies beside a model that is saved in shards and tells how large its tensors are.
struct ShardEvidence {
  std::int64_t shards = 0;
  /// Whether each file tells the number of its shard.
  bool numbered = false;
  ModelShapes config{};
  /// The index of the same model in whole tensors; empty: there is none.
  std::filesystem::path index{};
  /// The bytes of all tensors, by that index.
  std::optional<std::uint64_t> total_bytes{};
};

/// A shard says where its parts of tensors begin, but not how large the whole is. What beside the
/// shards proves that the parts reach to the end:
/// - the sum of all bytes by the index;
/// - the shape by config.json, of names that are known;
/// - a tensor of the same rows: the bias of a weight, the output for the embedding;
/// - a tensor whose rows config.json states, and of which each shard has an equal part such that
///   more shards would have had smaller ones: then these are all shards
///   (torch.chunk, by which torch.distributed cuts).
/// @param files of all shards. RankFile::part numbers the file of a numbered shard.
/// @param out gets what is short, what is open, and the grounds.
void state_shapes(const ShardEvidence& evidence, const std::vector<RankFile>& files,
                  Completeness& out);

}  // namespace reshardfs
