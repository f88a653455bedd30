// SPDX-License-Identifier: Apache-2.0
#include "strategy/derive/sized_strategy.h"

#include <utility>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// The most devices of a stage.
constexpr std::int64_t kMostDevices = 1 << 20;

constexpr const char* kWriteRules = "write rules for the target instead: see reshardfs-strategy(5)";

/// Axes of the device matrix, by their place from the right, as tensor maps count them.
struct SizedAxes {
  std::vector<std::int64_t> matrix{};
  int tensor = -1;  ///< -1: one device
  int expert = -1;
};

SizedAxes sized_axes(const ParallelSizes& sizes) {
  SizedAxes axes;
  for (const ParallelAxis& axis : axes_of(sizes)) axes.matrix.push_back(axis.size);
  if (sizes.tensor > 1) axes.tensor = 0;
  if (sizes.expert > 1) axes.expert = sizes.tensor > 1 ? 1 : 0;
  return axes;
}

Layout layout_of(const SizedParameter& parameter, const SizedAxes& axes) {
  Layout layout;
  layout.device_matrix = axes.matrix;
  layout.tensor_map.resize(parameter.dimensions);
  const auto cut = [&](const std::optional<std::size_t>& dimension, int axis) {
    if (dimension && axis >= 0) layout.tensor_map.at(*dimension).push_back(axis);
  };
  cut(parameter.tensor_cut, axes.tensor);
  cut(parameter.expert_cut, axes.expert);
  return layout;
}

}  // namespace

std::vector<ParallelAxis> axes_of(const ParallelSizes& sizes) {
  std::vector<ParallelAxis> axes;
  for (ParallelAxis axis : {ParallelAxis{"dp", sizes.data / sizes.expert},
                            ParallelAxis{"ep", sizes.expert}, ParallelAxis{"tp", sizes.tensor}}) {
    if (axis.size > 1) axes.push_back(std::move(axis));
  }
  if (axes.empty()) axes.push_back({"tp", 1});
  return axes;
}

ParallelSizes ParallelSizes::of(const DerivedSizes& named) {
  const auto size_of = [](const std::optional<std::int64_t>& size) { return size.value_or(1); };
  if (named.optimizer && *named.optimizer != 0) {
    throw Error(ErrorKind::kUnsupported, "opt needs a source strategy").hint(kWriteRules);
  }
  ParallelSizes sizes;
  sizes.tensor = size_of(named.tensor);
  sizes.expert = size_of(named.expert);
  sizes.stages = size_of(named.pipeline);
  sizes.data = named.data ? *named.data : sizes.expert;
  if (sizes.data % sizes.expert != 0) {
    throw Error(ErrorKind::kUsage, "dp=" + std::to_string(sizes.data) +
                                       " is no multiple of ep=" + std::to_string(sizes.expert))
        .hint("groups of experts lie among the ranks of data parallelism: give dp=" +
              std::to_string(sizes.expert) + ", or a multiple");
  }
  if (sizes.tensor > kMostDevices / sizes.data) {
    throw Error(ErrorKind::kUsage, "dp times tp is more than " + std::to_string(kMostDevices));
  }
  return sizes;
}

Strategy sized_strategy(const ParallelSizes& sizes, const std::vector<SizedParameter>& parameters) {
  const SizedAxes axes = sized_axes(sizes);
  std::vector<StageLayouts> stages(static_cast<std::size_t>(sizes.stages));
  for (const SizedParameter& parameter : parameters) {
    for (const std::int64_t stage : parameter.stages) {
      stages.at(static_cast<std::size_t>(stage))
          .try_emplace(parameter.name, layout_of(parameter, axes));
    }
  }
  return {std::move(stages), 0, sizes.stages > 1, {}, sizes.data * sizes.tensor};
}

}  // namespace reshardfs
