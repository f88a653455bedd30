// SPDX-License-Identifier: Apache-2.0
/// Models that torch.distributed.checkpoint saved to safetensors files in shards: each rank writes
/// its own parts (HuggingFaceStorageWriter with save_distributed; pytorch/pytorch
/// torch/distributed/checkpoint/hf_storage.py, _hf_utils.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/box_catalogue.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// A catalogue of tensors of which each file has a part. Files state where their parts begin, but
/// not the full shape, which is taken to end where the last part ends. A set without its last files
/// looks like a smaller one; shard_shapes.h detects this.
class ShardCatalogue final : public BoxCatalogue {
 public:
  /// @param names of the model in whole tensors, from its index; empty: there is no index.
  ShardCatalogue(std::int64_t shards, std::vector<std::string> names);

  /// @throws Error kBadInput if the parts have different numbers of dimensions.
  std::optional<BoxPlacement> boxes(const std::string& name, const Holders& holders) const override;
  std::vector<std::string> required_names() const override { return names_; }

 private:
  std::vector<std::string> names_;
};

/// See SetFormat. Decided by the names of the files; if they do not decide, the header of one file
/// is read. A directory with a model in whole tensors is never a shard set.
std::optional<Discovery> discover_shards(const std::filesystem::path& directory,
                                         const CheckpointOptions& options,
                                         const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_shard_steps(const std::filesystem::path& directory,
                                                      const SourceTreePtr& tree);

}  // namespace reshardfs
