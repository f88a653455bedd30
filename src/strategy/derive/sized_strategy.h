// SPDX-License-Identifier: Apache-2.0
/// Strategies from sizes and the dimension along which each parameter is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/sizes.h"
#include "reshardfs/strategy.h"

namespace reshardfs {

/// How many ranks share tensors in each way.
struct ParallelSizes {
  std::int64_t tensor = 1;
  std::int64_t data = 1;
  std::int64_t expert = 1;
  std::int64_t stages = 1;  ///< of a pipeline

  /// Ways that are not named are not taken: their size is 1. Only data parallelism then has the
  /// size of expert parallelism, whose groups lie among its ranks.
  /// @throws Error kUsage for sizes that do not go together, kUnsupported for opt.
  static ParallelSizes of(const DerivedSizes& named);

  bool cuts() const noexcept { return tensor > 1 || expert > 1; }
};

struct ParallelAxis {
  std::string name{};  ///< "dp", "ep" or "tp"
  std::int64_t size = 1;
};

/// The axes of each stage's device matrix, outermost first: those of more than one device, or one
/// of one.
std::vector<ParallelAxis> axes_of(const ParallelSizes& sizes);

struct SizedParameter {
  std::string name{};
  std::size_t dimensions = 0;
  std::optional<std::size_t> tensor_cut{};  ///< the dimension that tensor parallelism cuts
  std::optional<std::size_t> expert_cut{};  ///< the dimension that expert parallelism cuts
  std::vector<std::int64_t> stages = {0};   ///< that have it
};

/// In each stage the device matrix [dp/ep, ep, tp] without axes of one device: groups of expert
/// parallelism lie among the ranks of data parallelism, as MindFormers
/// (parallel_config.expert_parallel) and Megatron-Core
/// (--expert-model-parallel-size) have them.
Strategy sized_strategy(const ParallelSizes& sizes, const std::vector<SizedParameter>& parameters);

}  // namespace reshardfs
