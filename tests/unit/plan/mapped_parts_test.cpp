// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped_parts.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

Layout layout(TensorMap map, std::int64_t optimizer = 0) {
  Layout made;
  made.device_matrix = {2, 4};
  made.tensor_map = std::move(map);
  made.optimizer_shard_size = optimizer;
  return made;
}

/// What is known of 'w' [8, 12] that stages lay out so.
std::optional<modelmap::PartCount> parts(const std::vector<Layout>& stages) {
  std::vector<StageLayouts> layouts;
  for (const Layout& stage : stages) layouts.push_back({{"w", stage}});
  return parts_in(Strategy(std::move(layouts), 0, stages.size() > 1), {{"w", {8, 12}}})("w");
}

TEST(MappedParts, AreThoseOfTheOnlyCutDimension) {
  EXPECT_EQ(parts({layout({{0}, {}})})->parts, 4);
  EXPECT_EQ(parts({layout({{}, {1}})})->parts, 2);
  EXPECT_EQ(parts({layout({{}, {}})})->parts, 1);
  EXPECT_FALSE(parts({layout({{0}, {}})})->is_unclear);
}

TEST(MappedParts, AreNotThoseOfAnOptimizer) {
  EXPECT_EQ(parts({layout({{}, {}}, 8)})->parts, 1);
  EXPECT_EQ(parts({layout({{0}, {}}, 2)})->parts, 4);
}

TEST(MappedParts, AreUnclearWhereSeveralDimensionsAreCutOrStagesDiffer) {
  const Layout both = layout({{0}, {1}});
  const Layout whole = layout({{}, {}});
  EXPECT_TRUE(parts({both})->is_unclear);
  EXPECT_TRUE(parts({layout({{0}, {}}), whole})->is_unclear);
  EXPECT_FALSE(parts({whole, whole})->is_unclear);
  // Whichever stage comes first.
  EXPECT_TRUE(parts({both, whole})->is_unclear);
  EXPECT_TRUE(parts({whole, both})->is_unclear);
}

TEST(MappedParts, AreUnknownOfOtherTensors) {
  const Strategy strategy({StageLayouts{{"w", layout({{0}, {}})}}}, 0, false);
  EXPECT_FALSE(parts_in(strategy, {{"w", {8, 12}}})("v"));
}

}  // namespace
}  // namespace reshardfs
