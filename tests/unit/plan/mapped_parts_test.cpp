// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped/mapped_parts.h"

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
Known<std::int64_t> parts(const std::vector<Layout>& stages) {
  std::vector<StageLayouts> layouts;
  for (const Layout& stage : stages) layouts.push_back({{"w", stage}});
  return parts_in(Strategy(std::move(layouts), 0, stages.size() > 1), {{"w", {8, 12}}})("w");
}

TEST(MappedParts, AreThoseOfTheOnlyCutDimension) {
  EXPECT_EQ(*parts({layout({{0}, {}})}), 4);
  EXPECT_EQ(*parts({layout({{}, {1}})}), 2);
  EXPECT_EQ(*parts({layout({{}, {}})}), 1);
  EXPECT_EQ(parts({layout({{0}, {}})}).origin(), "the target strategy");
}

TEST(MappedParts, AreNotThoseOfAnOptimizer) {
  EXPECT_EQ(*parts({layout({{}, {}}, 8)}), 1);
  EXPECT_EQ(*parts({layout({{0}, {}}, 2)}), 4);
}

TEST(MappedParts, AreUnknownWhereSeveralDimensionsAreCutOrStagesDiffer) {
  const Layout both = layout({{0}, {1}});
  const Layout whole = layout({{}, {}});
  EXPECT_FALSE(parts({both}));
  EXPECT_FALSE(parts({layout({{0}, {}}), whole}));
  EXPECT_EQ(*parts({whole, whole}), 1);
  // Whichever stage comes first.
  EXPECT_FALSE(parts({both, whole}));
  EXPECT_FALSE(parts({whole, both}));
  EXPECT_EQ(parts({both}).origin(), "the target strategy cuts it along several dimensions");
}

TEST(MappedParts, AreUnknownOfOtherTensors) {
  const Strategy strategy({StageLayouts{{"w", layout({{0}, {}})}}}, 0, false);
  EXPECT_FALSE(parts_in(strategy, {{"w", {8, 12}}})("v"));
}

TEST(MappedParts, AreThoseOfOneRankOrUnknown) {
  EXPECT_EQ(*parts_of_one_rank()("w"), 1);
  EXPECT_FALSE(parts_between_maps()("w"));
  EXPECT_FALSE(parts_between_maps()("w").origin().empty());
}

}  // namespace
}  // namespace reshardfs
