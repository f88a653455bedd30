// SPDX-License-Identifier: Apache-2.0
/// Checks of strategies that were written as rules.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "layout/slicing.h"
#include "rules_samples.h"

namespace reshardfs::testing {

/// The shape that a layout is tried on: `length` in each dimension, or the sum of the lengths that
/// MindSpore gives for the parts of dimension 0.
inline Shape shape_for(const Layout& layout, std::int64_t length) {
  Shape shape(layout.tensor_map.size(), length);
  const auto& lengths = layout.param_split_shape;
  if (shape.empty() || lengths.empty() || lengths.front().empty()) return shape;
  Layout even = layout;
  even.param_split_shape.clear();
  const auto parts = static_cast<std::size_t>(Slicing(even, shape).partitions()[0].parts());
  const std::size_t beside = std::max<std::size_t>(1, lengths.front().size() / parts);
  shape[0] = 0;
  for (std::size_t i = 0; i < lengths.front().size(); i += beside) shape[0] += lengths.front()[i];
  return shape;
}

/// The parameters of a strategy, of 1680 elements in each dimension: most cuts divide that.
inline std::vector<NamedShape> parameters_of(const Strategy& strategy, std::int64_t length = 1680) {
  std::vector<NamedShape> parameters;
  for (const StageLayouts& stage : stages_of(strategy)) {
    for (const auto& [name, its] : stage) {
      parameters.push_back({name, shape_for(its, length)});
    }
  }
  return parameters;
}

/// What is written must give every device the same slices.
inline std::string written(const Strategy& strategy, std::int64_t length = 1680) {
  std::string text = to_rules(strategy);
  SCOPED_TRACE(text);
  const std::vector<NamedShape> parameters = parameters_of(strategy, length);
  const Strategy read = rules_of(text).apply(parameters);
  EXPECT_EQ(read.stage_count(), strategy.stage_count());
  EXPECT_EQ(read.devices_per_stage(), strategy.devices_per_stage());
  for (const NamedShape& parameter : parameters) {
    SCOPED_TRACE(parameter.name);
    EXPECT_EQ(read.stages_of(parameter.name), strategy.stages_of(parameter.name));
    for (const std::int64_t stage : strategy.stages_of(parameter.name)) {
      const Slicing left(read.stage(stage).at(parameter.name), parameter.shape);
      const Slicing right(strategy.stage(stage).at(parameter.name), parameter.shape);
      for (std::int64_t rank = 0; rank < right.devices(); ++rank) {
        EXPECT_EQ(left.parts_of(rank), right.parts_of(rank)) << "rank " << rank;
        EXPECT_EQ(left.slice_shape(rank), right.slice_shape(rank)) << "rank " << rank;
      }
    }
  }
  return text;
}

}  // namespace reshardfs::testing
