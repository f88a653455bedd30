// SPDX-License-Identifier: Apache-2.0
#include "strategy/files/layout_fields.h"

#include <algorithm>
#include <limits>
#include <string>

#include "reshardfs/error.h"

#include "strategy/derive/derive_cuts.h"

namespace reshardfs {
namespace {

int checked_axis(std::int64_t number) {
  if (number < 0 || number > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::kBadInput, "the tensor map has " + std::to_string(number) +
                                          ", expected -1 or an axis of the device matrix");
  }
  return static_cast<int>(number);
}

Error not_expressible(const std::string& parameter, const std::string& what) {
  return Error(ErrorKind::kUnsupported, "MindSpore's strategy files cannot express that " + what)
      .for_parameter(parameter)
      .hint("use the rules file itself");
}

/// param_split_shape has a length for each distinct slice, and dimension 0 varies slowest.
std::vector<std::int64_t> lengths_of_slices(const Layout& layout) {
  std::int64_t beside = 1;
  for (std::size_t d = 1; d < layout.tensor_map.size(); ++d) {
    beside *= device_count(group_of(layout, layout.tensor_map[d]));
  }
  std::vector<std::int64_t> lengths;
  for (const std::int64_t length : layout.uneven.front().lengths) {
    lengths.insert(lengths.end(), static_cast<std::size_t>(beside), length);
  }
  return lengths;
}

}  // namespace

TensorMap tensor_map_from_flat(const Numbers& entries) {
  TensorMap map;
  map.reserve(entries.size());
  for (const std::int64_t entry : entries) {
    map.emplace_back();
    if (entry != -1) map.back().push_back(checked_axis(entry));
  }
  return map;
}

std::vector<int> dimension_axes(const Numbers& axes) {
  if (axes.size() == 1 && axes.front() == -1) return {};
  if (axes.empty()) {
    throw Error(ErrorKind::kBadInput, "the tensor map has an empty list of axes")
        .hint("a dimension that is not cut is written as [-1]");
  }
  if (std::find(axes.begin(), axes.end(), -1) != axes.end()) {
    throw Error(ErrorKind::kBadInput,
                "the tensor map has -1 in a list of several axes: " + to_string(axes));
  }
  std::vector<int> result;
  result.reserve(axes.size());
  for (const std::int64_t axis : axes) result.push_back(checked_axis(axis));
  return result;
}

bool is_flat(const TensorMap& map) {
  return std::all_of(map.begin(), map.end(), [](const auto& axes) { return axes.size() <= 1; });
}

Numbers dimension_numbers(const std::vector<int>& axes) {
  if (axes.empty()) return {-1};
  return {axes.begin(), axes.end()};
}

void finish_layout(Layout& layout) {
  // Pipeline parallelism alone: a stage is one device.
  if (layout.device_matrix.empty()) layout.device_matrix = {1};
  check_layout(layout);
  if (layout.optimizer_shard_step == 0) layout.optimizer_shard_size = 0;
}

std::int64_t optimizer_step_to_write(const Layout& layout) {
  if (layout.optimizer_shard_size == 0 || layout.optimizer_shard_step != 0) {
    return layout.optimizer_shard_step;
  }
  const std::size_t axis_count = layout.device_matrix.size();
  std::vector<bool> cuts(axis_count, false);
  for (const std::vector<int>& axes : layout.tensor_map) {
    for (const int axis : axes) cuts[axis_count - 1 - static_cast<std::size_t>(axis)] = true;
  }
  // Device numbers are row-major: the devices with the slice of device 0 are those that differ
  // from it on axes without a cut alone. The step is their mean distance, as MindSpore writes it.
  std::int64_t last = 0;
  std::int64_t holders = 1;
  std::int64_t stride = 1;
  for (std::size_t i = axis_count; i-- > 0;) {
    const std::int64_t size = layout.device_matrix[i];
    if (!cuts[i]) {
      last += (size - 1) * stride;
      holders *= size;
    }
    stride *= size;
  }
  return holders > 1 ? last / (holders - 1) : 1;
}

std::vector<OperatorStrategy> operators_to_write(const Strategy& strategy) {
  std::vector<OperatorStrategy> operators = strategy.operators();
  const std::int64_t stage_said = operators.empty() ? 0 : operators.front().stage;
  const bool merged = strategy.stage_prefixed() || strategy.stage_count() > 1;
  if (!merged && stage_said != strategy.first_stage()) {
    operators.insert(operators.begin(), {"pipeline_stage", strategy.first_stage(), {}});
  }
  return operators;
}

Layout mindspore_layout(const Layout& layout, const std::string& parameter) {
  Layout result = layout;
  result.uneven.clear();
  for (std::size_t d = 0; d < layout.uneven.size(); ++d) {
    const DimensionSplit& split = layout.uneven[d];
    if (split.balanced) {
      throw not_expressible(parameter, "dimension " + std::to_string(d) + " is cut 'balanced'");
    }
    if (split.lengths.empty()) continue;
    if (d > 0) {
      throw not_expressible(parameter, "dimension " + std::to_string(d) +
                                           " is cut unevenly (only dimension 0 can be)");
    }
    result.param_split_shape = {lengths_of_slices(layout)};
  }
  return result;
}

}  // namespace reshardfs
