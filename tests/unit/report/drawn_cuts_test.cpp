// SPDX-License-Identifier: Apache-2.0
#include "report/drawn_cuts.h"

#include <gtest/gtest.h>

#include "report/page_sizes.h"
#include "support/checkpoint.h"
#include "support/ranks.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::memory_set;
using test::record;

/// Two ranks. The states come first, as in MindSpore's own files; the whole tensor is the largest.
class DrawnCuts : public ::testing::Test {
 protected:
  DrawnCuts() {
    const Layout rows{.device_matrix = {2}, .tensor_map = {{0}, {}}};
    const Layout columns{.device_matrix = {2}, .tensor_map = {{}, {0}}};
    const Layout whole{.device_matrix = {2}, .tensor_map = {{}, {}}};
    const StageLayouts layouts{
        {"adam_m.w", rows}, {"adam_v.w", rows}, {"w", rows}, {"v", columns}, {"table", whole}};
    std::map<std::int64_t, std::string> files;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      files[rank] = record("adam_m.w", {2, 8}, "Int8", std::string(16, 'x')) +
                    record("adam_v.w", {2, 8}, "Int8", std::string(16, 'x')) +
                    record("w", {2, 8}, "Int8", std::string(16, 'x')) +
                    record("v", {4, 2}, "Int8", std::string(8, 'x')) +
                    record("table", {16, 8}, "Int8", std::string(128, 'x'));
    }
    auto source =
        std::make_shared<const SourceTable>(memory_set(files), Strategy({layouts}, 0, false));
    target = std::make_shared<const TargetTable>(std::move(source), Strategy({layouts}, 0, false),
                                                 TargetOptions{});
  }

  std::vector<DrawnCut> cuts(const ParameterRoles& roles) const {
    const TrafficSurvey survey = survey_traffic(*target, ranks, 4);
    return drawn_cuts(*target, ranks, survey, roles, kind_examples(*target, survey, roles));
  }
  std::string name(const DrawnCut& cut) const { return target->parameters()[cut.example].name; }

  std::shared_ptr<const TargetTable> target;
  std::vector<Rank> ranks = test::ranks({0, 1});
};

TEST_F(DrawnCuts, TakeAWeightThatIsCutAsExample) {
  const std::vector<DrawnCut> list = cuts({});
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(name(list[0]), "w");
  EXPECT_EQ(list[0].count, 3U);
  EXPECT_EQ(list[0].bytes, 3U * 32);
  EXPECT_EQ(name(list[1]), "v");
  EXPECT_EQ(name(list[2]), "table") << "is the largest, but not cut";
  EXPECT_FALSE(list[2].is_cut);
}

TEST_F(DrawnCuts, TakeAStateWhereNoWeightIsCutSo) {
  const auto states = std::make_shared<const std::set<std::string>>(std::set<std::string>{"v"});
  const std::vector<DrawnCut> mapped = cuts(ParameterRoles({}, states));
  EXPECT_EQ(name(mapped[0]), "w");
  EXPECT_EQ(name(mapped[1]), "v");
  EXPECT_TRUE(mapped[1].example_is_state);
}

TEST_F(DrawnCuts, TotalsTellWeightsFromStates) {
  const ModelTotals totals = model_totals(*target, ranks, {});
  ASSERT_EQ(totals.by_type.size(), 1U);
  const ModelTotals::OfType& type = totals.by_type.at("Int8");
  EXPECT_EQ(type.weights.parameters, 3U);
  EXPECT_EQ(type.weights.bytes, 32U + 16 + 128);
  EXPECT_EQ(type.optimizer.parameters, 2U);
  EXPECT_EQ(type.optimizer.bytes, 64U);
  EXPECT_EQ(totals.all.weights.bytes, type.weights.bytes);
}

}  // namespace
}  // namespace reshardfs
