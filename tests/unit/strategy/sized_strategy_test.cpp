// SPDX-License-Identifier: Apache-2.0
#include "strategy/derive/sized_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs::testing {
namespace {

using ::testing::HasSubstr;

ParallelSizes sizes_of(const std::string& text) {
  return ParallelSizes::of(parse_derivation(text));
}

std::string refusal_of_sizes(const std::string& text) {
  try {
    static_cast<void>(sizes_of(text));
  } catch (const Error& error) {
    return error.message();
  }
  return "accepted";
}

Layout layout_in(const std::string& text, const SizedParameter& parameter) {
  return sized_strategy(sizes_of(text), {parameter}).stage(0).at(parameter.name);
}

const SizedParameter kMatrix{"w", 2, 1, {}};
const SizedParameter kExperts{"e", 3, {}, 0};
const SizedParameter kNorm{"n", 1, {}, {}};

TEST(ParallelSizes, AreOneWhereTheyAreNotNamed) {
  const ParallelSizes sizes = sizes_of("tp=4");
  EXPECT_EQ(sizes.tensor, 4);
  EXPECT_EQ(sizes.data, 1);
  EXPECT_EQ(sizes.expert, 1);
  EXPECT_FALSE(sizes_of("dp=8").cuts());
  EXPECT_TRUE(sizes_of("ep=8").cuts());
}

TEST(ParallelSizes, HaveGroupsOfExpertsAmongDataParallelism) {
  EXPECT_EQ(sizes_of("tp=2,ep=4").data, 4);
  EXPECT_EQ(sizes_of("ep=4,dp=8").data, 8);
  EXPECT_THAT(refusal_of_sizes("dp=6,ep=4"), HasSubstr("dp=6 is no multiple of ep=4"));
}

TEST(ParallelSizes, RefuseWhatOnlyASourceStrategyTells) {
  EXPECT_THAT(refusal_of_sizes("tp=2,opt=on"), HasSubstr("opt needs"));
  EXPECT_EQ(refusal_of_sizes("tp=2,pp=1,opt=off"), "accepted");
  EXPECT_EQ(refusal_of_sizes("tp=1024,dp=2048"), "dp times tp is more than 1048576");
}

TEST(SizedStrategy, HasAnAxisForEachSizeAboveOne) {
  EXPECT_EQ(layout_in("tp=4", kMatrix).device_matrix, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(layout_in("dp=3,tp=4", kMatrix).device_matrix, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(layout_in("tp=1", kMatrix).device_matrix, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(layout_in("tp=2,ep=4,dp=8", kMatrix).device_matrix,
            (std::vector<std::int64_t>{2, 4, 2}));
}

TEST(SizedStrategy, CutsByTheAxisThatIsMeant) {
  using Map = std::vector<std::vector<int>>;
  EXPECT_EQ(layout_in("tp=2,ep=4", kMatrix).tensor_map, (Map{{}, {0}}));
  EXPECT_EQ(layout_in("tp=2,ep=4", kExperts).tensor_map, (Map{{1}, {}, {}}));
  EXPECT_EQ(layout_in("ep=4", kExperts).tensor_map, (Map{{0}, {}, {}}));
  EXPECT_EQ(layout_in("tp=2", kExperts).tensor_map, (Map{{}, {}, {}}));
  EXPECT_EQ(layout_in("tp=2", kNorm).tensor_map, (Map{{}}));
  EXPECT_EQ(layout_in("tp=1", kMatrix).tensor_map, (Map{{}, {}}));
}

TEST(SizedStrategy, HasEachParameterInItsStages) {
  const Strategy strategy =
      sized_strategy(sizes_of("tp=2,pp=3"), {{"w", 2, 1, {}, {1}}, {"tied", 2, 0, {}, {0, 2}}});
  EXPECT_EQ(strategy.stage_count(), 3);
  EXPECT_EQ(strategy.rank_count(), 6);
  EXPECT_TRUE(strategy.stage_prefixed());
  EXPECT_EQ(strategy.stages_of("w"), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(strategy.stages_of("tied"), (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(strategy.stage(2).at("tied").device_matrix, (std::vector<std::int64_t>{2}));
  EXPECT_FALSE(sized_strategy(sizes_of("tp=2"), {kMatrix}).stage_prefixed());
}

TEST(SizedStrategy, HasAllRanksEvenWithoutParameters) {
  EXPECT_EQ(sized_strategy(sizes_of("tp=2,dp=3"), {}).rank_count(), 6);
}

}  // namespace
}  // namespace reshardfs::testing
