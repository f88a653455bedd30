// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/layout_facts.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

LayoutFacts facts_of(const std::vector<Layout>& layouts, std::int64_t devices) {
  std::vector<const Layout*> pointers;
  for (const Layout& layout : layouts) pointers.push_back(&layout);
  return cuts_of(pointers, devices);
}

Layout layout(std::vector<std::int64_t> matrix, TensorMap map) {
  return {std::move(matrix), std::move(map)};
}

TEST(LayoutFacts, RowsAndColumnsOverOneAxisAreTensorParallel) {
  const LayoutFacts facts =
      facts_of({layout({2, 4}, {{0}, {}}), layout({2, 4}, {{}, {0}}), layout({2, 4}, {{}})}, 8);
  EXPECT_EQ(facts.tp, 4);
  EXPECT_EQ(facts.dp, 2);
  EXPECT_EQ(facts.most_slices, 4);
  EXPECT_FALSE(facts.optimizer_cut);
}

TEST(LayoutFacts, TheSameAxisOfOtherMatrices) {
  EXPECT_EQ(facts_of({layout({8}, {{0}, {}}), layout({1, 8}, {{}, {0}})}, 8).tp, 8);
  EXPECT_EQ(facts_of({layout({2, 4}, {{0}, {}}), layout({4, 2}, {{}, {1}})}, 8).tp, std::nullopt);
}

TEST(LayoutFacts, RowsAloneMayBeAnything) {
  const LayoutFacts facts = facts_of({layout({4}, {{0}, {}})}, 4);
  EXPECT_EQ(facts.tp, std::nullopt);
  EXPECT_EQ(facts.most_slices, 4);
}

TEST(LayoutFacts, TwoAxesAreNotOne) {
  EXPECT_EQ(facts_of({layout({2, 2}, {{0}, {1}})}, 4).tp, std::nullopt);
  EXPECT_EQ(facts_of({layout({2, 2}, {{1, 0}, {}}), layout({2, 2}, {{}, {0}})}, 4).most_slices, 4);
}

TEST(LayoutFacts, TheOptimizersCut) {
  Layout cut = layout({4}, {{}});
  cut.optimizer_shard_size = -1;
  EXPECT_TRUE(facts_of({cut}, 4).optimizer_cut);
}

TEST(LayoutFacts, StagesHoldNamesOfTheirOwn) {
  EXPECT_EQ(stages_by_names({0, 0, 1, 1}), 2);
  EXPECT_EQ(stages_by_names({0, 1, 2}), 3);
  EXPECT_EQ(stages_by_names({0, 0, 0}), std::nullopt);
  EXPECT_EQ(stages_by_names({0, 0, 1}), std::nullopt);
  EXPECT_EQ(stages_by_names({0, 1, 0, 1}), std::nullopt);
}

}  // namespace
}  // namespace reshardfs
