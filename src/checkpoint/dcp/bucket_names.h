// SPDX-License-Identifier: Apache-2.0
/// Names in a torch_dist checkpoint whose optimizer was saved as it lies in memory
/// (dp_reshardable), and where Megatron-Core's modules have their parameters
/// (NVIDIA/Megatron-LM megatron/core/optimizer/distrib_optimizer.py, August 2026).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

/// "chained_0.optimizer.distributed.dp_group_idx_1.gbuf_idx_0.dtype_(torch.bfloat16,
/// torch.float32).bucket_idx_2.exp_avg"
struct BucketName {
  std::string chain{};      ///< "chained_0.", of one of several optimizers; empty: there is one
  std::int64_t group = 0;   ///< of ranks that have the same parameters
  std::int64_t buffer = 0;  ///< of the group
  std::string types{};      ///< of the buffer
  std::int64_t bucket = 0;  ///< of the buffer's
  std::string state{};
};

std::optional<BucketName> parse_bucket_name(std::string_view name);

/// Where a parameter stands among those of the model: modules compare as they are registered.
struct RegisteredPlace {
  std::vector<std::int64_t> order{};
  bool is_known = false;  ///< else it is only by its name's layer and part of the model
};

/// @param layer, expert of a tensor that has those of all in it; 0 for others.
RegisteredPlace registered_place(std::string_view name, std::int64_t layer, std::int64_t expert);

/// How many dimensions of a weight count layers and experts.
struct StackedAxes {
  bool layers = false;
  bool experts = false;

  std::size_t count() const noexcept { return (layers ? 1U : 0U) + (experts ? 1U : 0U); }
};

StackedAxes stacked_axes(std::string_view name);

}  // namespace reshardfs
