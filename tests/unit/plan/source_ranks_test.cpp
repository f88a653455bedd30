// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/whole/whole_catalogue.h"
#include "plan/source/strategy_catalogue.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/two_rows.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::kRows;
using test::rows;

/// A set in which these ranks have a file.
std::shared_ptr<const CheckpointSet> set_of(const std::vector<std::int64_t>& ranks) {
  std::map<std::int64_t, std::string> records;
  for (const std::int64_t rank : ranks) records[rank] = rows("w", "abcd");
  return test::memory_set(records);
}

/// Of stages of two devices each.
Strategy strategy_of(std::size_t stages, std::int64_t first_stage = 0) {
  return {std::vector<StageLayouts>(stages, StageLayouts{{"w", kRows}}), first_stage, stages > 1};
}

TEST(SourceRanks, AreTheLowestAloneWithoutAStrategy) {
  const WholeCatalogue catalogue(*set_of({3, 5}), {}, {});
  const SourceRanks& ranks = catalogue.ranks();
  EXPECT_EQ(ranks.all(), RankRange(Rank(3), 1));
  EXPECT_EQ(ranks.devices(), 1);
  EXPECT_EQ(ranks.stages(), 1);
  EXPECT_EQ(ranks.stage_of(Rank(3)), 0);
  EXPECT_EQ(ranks.device_of(Rank(3)), 0);
}

TEST(SourceRanks, AreInStagesOfAsManyDevices) {
  const SourceRanks ranks = source_ranks(*set_of({0, 5}), strategy_of(3));
  EXPECT_EQ(ranks.all(), RankRange(Rank(0), 6));
  EXPECT_EQ(ranks.devices(), 2);
  EXPECT_EQ(ranks.stages(), 3);
  EXPECT_EQ(ranks.of_stage(2), RankRange(Rank(4), 2));
  for (const Rank rank : ranks.all()) {
    EXPECT_EQ(ranks.stage_of(rank), rank.number() / 2);
    EXPECT_EQ(ranks.device_of(rank), rank.number() % 2);
    EXPECT_TRUE(ranks.of_stage(ranks.stage_of(rank)).contains(rank));
  }
}

TEST(SourceRanks, AreInStagesBesideThoseOfOneThatIsReadAlone) {
  const SourceRanks ranks = source_ranks(*set_of({0, 1, 2, 3, 4, 5, 6, 7}), strategy_of(1, 2));
  EXPECT_EQ(ranks.all(), RankRange(Rank(4), 2));
  EXPECT_EQ(ranks.stages(), 1);
  for (const Rank rank : test::first_ranks(8)) {
    EXPECT_EQ(ranks.stage_of(rank), rank.number() / 2 - 2) << rank.number();
    EXPECT_EQ(ranks.device_of(rank), rank.number() % 2) << rank.number();
    EXPECT_TRUE(ranks.of_stage(ranks.stage_of(rank)).contains(rank)) << rank.number();
  }
}

TEST(SourceRanks, CountFrom0WhereTheStageHasNoFile) {
  EXPECT_EQ(source_ranks(*set_of({0, 1}), strategy_of(1, 3)).all(), RankRange(Rank(0), 2));
  EXPECT_EQ(source_ranks(*set_of({0, 7}), strategy_of(1, 3)).all(), RankRange(Rank(6), 2));
  expect_error(ErrorKind::kBadInput, {"also has rank 2,5;"}, [] {
    source_ranks(*set_of({0, 2, 5}), strategy_of(1, 3));
  });
}

TEST(SourceRanks, CountRanksAndNotTheirFiles) {
  // Each rank has two files, so that there are more files than ranks.
  const std::vector<std::string> parts{rows("v", "abcd"), rows("w", "abcd")};
  const auto set = test::segmented_set({{0, parts}, {1, parts}});
  EXPECT_EQ(source_ranks(*set, strategy_of(1, 1)).all(), RankRange(Rank(0), 2));
}

/// Two devices that hold the same slice, cut once more for the optimizer.
const Layout kOptimizerRows{
    .device_matrix = {2}, .tensor_map = {{}, {}}, .optimizer_shard_size = -1};

std::shared_ptr<const CheckpointSet> set_with_state(const std::string& state,
                                                    const std::vector<std::int64_t>& shape,
                                                    const std::string& weight = "w") {
  const std::string content(static_cast<std::size_t>(shape[0] * shape[1]), 'x');
  const std::string bytes = rows(weight, "abcd") + test::record(state, shape, "Int8", content);
  return test::memory_set({{0, bytes}, {1, bytes}});
}

StrategyCatalogue with_state(const std::string& state, const std::vector<std::int64_t>& shape,
                             const std::string& weight = "w") {
  return {*set_with_state(state, shape, weight),
          Strategy({{{"w", kOptimizerRows}, {state, kOptimizerRows}}}, 0, false)};
}

std::int64_t optimizer_cut(const StrategyCatalogue& catalogue, const std::string& name) {
  return catalogue.layouts_of(name).at(0)->optimizer_shard_size;
}

TEST(StrategyCatalogue, TellsByTheSlicesWhetherAccumulatedGradientsAreCut) {
  EXPECT_EQ(optimizer_cut(with_state("accu_grads.w", {1, 4}), "accu_grads.w"), -1);
  const StrategyCatalogue whole = with_state("accu_grads.w", {2, 4});
  EXPECT_EQ(optimizer_cut(whole, "accu_grads.w"), 0);
  EXPECT_EQ(optimizer_cut(whole, "w"), -1);
  EXPECT_EQ(whole.strategy().stage(0).at("accu_grads.w").optimizer_shard_size, 0);
}

TEST(StrategyCatalogue, RefusesGradientsThatContradictTheirWeights) {
  const StrategyCatalogue catalogue = with_state("accu_grads.w", {3, 4});
  expect_error(
      ErrorKind::kBadInput,
      {"its slice [3, 4]", "without the optimizer's cut", "'w' is [2, 4]", "--src-strategy"},
      [&] { catalogue.placements("accu_grads.w", {}); });
  // Others are laid out all the same.
  EXPECT_EQ(optimizer_cut(catalogue, "w"), -1);
  // Of other states, the strategy is believed.
  EXPECT_EQ(optimizer_cut(with_state("adam_m.w", {3, 4}), "adam_m.w"), -1);
}

TEST(StrategyCatalogue, DoesNotGuessWhetherGradientsWithoutTheirWeightAreCut) {
  const StrategyCatalogue catalogue = with_state("accu_grads.w", {2, 4}, "v");
  expect_error(ErrorKind::kBadInput, {"may be cut for the optimizer or not", "no file has 'w'"},
               [&] { catalogue.placements("accu_grads.w", {}); });
}

}  // namespace
}  // namespace reshardfs
