// SPDX-License-Identifier: Apache-2.0
/// What rules give to parameters. What is refused: rules_refusal_test.cpp.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout/slicing.h"
#include "rules_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(RulesFile, IsToldByItsExtension) {
  EXPECT_TRUE(StrategyRules::is_rules_file("a/strategy.toml"));
  EXPECT_FALSE(StrategyRules::is_rules_file("a/strategy.ckpt"));
  EXPECT_FALSE(StrategyRules::is_rules_file("toml"));
}

TEST(RulesFile, IsNoStrategyByItself) {
  const TemporaryDirectory directory;
  const auto path = directory.write("rules.toml", with_rule("match = 'w'"));
  for (const auto& load : {+[](const std::filesystem::path& p) { Strategy::load(p); },
                           +[](const std::filesystem::path& p) { Strategy::load_stages({p}); }}) {
    EXPECT_THAT(refusal_of([&] { load(path); }, ErrorKind::kUsage),
                HasSubstr("holds rules, which need the parameters of a checkpoint; give the "
                          "checkpoint too, as 'reshardfs strategy convert --source' does"));
  }
}

TEST(RulesFile, KnowsItsRanks) {
  EXPECT_EQ(rules_of("[devices]\naxes = ['z=2', 'a = 3']\nstages = 4\n").rank_count(), 24);
}

TEST(RulesCut, NamesAxesInTheOrderOfTheFile) {
  // Neither order is the one in which TOML tables would sort the names.
  const StrategyRules rules = rules_of(
      "[devices]\naxes = ['z=2', 'a = 3', 'm=4']\n"
      "[[rule]]\nmatch = 'w'\ncut = ['z', 'a', 'm']\n");
  const Layout layout = rules.apply({{"w", {2, 3, 4}}}).stage(0).at("w");
  EXPECT_THAT(layout.device_matrix, ElementsAre(2, 3, 4));
  EXPECT_EQ(layout.tensor_map, (TensorMap{{2}, {1}, {0}}));
}

TEST(RulesCut, TakesListsOfAxesFirstMajor) {
  EXPECT_EQ(layout_by_rule("cut = ['', ['dp', 'tp']]", {8, 8}).tensor_map, (TensorMap{{}, {1, 0}}));
  EXPECT_EQ(layout_by_rule("cut = [['tp', 'dp'], []]", {8, 8}).tensor_map, (TensorMap{{0, 1}, {}}));
}

TEST(RulesCut, LeavesFurtherDimensionsWhole) {
  EXPECT_EQ(layout_by_rule("cut = ['tp']", {8, 8, 8}).tensor_map, (TensorMap{{0}, {}, {}}));
  EXPECT_EQ(layout_by_rule("", {8, 8}).tensor_map, (TensorMap{{}, {}}));
  EXPECT_EQ(layout_by_rule("cut = []", {8}).tensor_map, (TensorMap{{}}));
}

TEST(RulesCut, MeansWhatTheSlicesShow) {
  const Layout layout = layout_by_rule("cut = ['tp', '']\noptimizer = 'all'", {16, 3});
  const Slicing slicing(layout, {16, 3});
  EXPECT_EQ(slicing.devices(), 8);
  EXPECT_EQ(slicing.slice_shape(0), (Shape{2, 3}));
  // Device 5 is (dp 1, tp 1): the second half of the second quarter.
  EXPECT_THAT(slicing.parts_of(5), ElementsAre(3, 0));
}

TEST(RulesCut, AScalarIsOnAllDevices) {
  const StrategyRules rules = rules_of(
      "[devices]\naxes = ['tp=4']\nstages = 2\noptimizer = 'all'\n"
      "[[rule]]\nmatch = '*'\ncut = ['tp', '']\nuneven = 'balanced'\nstage = 1\n");
  const Strategy strategy = rules.apply({{"global_step", {}}, {"w", {4, 4}}});
  EXPECT_THAT(strategy.stages_of("global_step"), ElementsAre(1));
  const Layout layout = strategy.stage(1).at("global_step");
  EXPECT_THAT(layout.device_matrix, ElementsAre(4));
  EXPECT_THAT(layout.tensor_map, IsEmpty());
  EXPECT_EQ(layout.optimizer_shard_size, 0);
  EXPECT_THAT(layout.uneven, IsEmpty());
}

TEST(RulesOptimizer, IsAllNoneOrANumber) {
  const auto size = [](const std::string& value) {
    return layout_by_rule("cut = ['tp']\noptimizer = " + value, {8}).optimizer_shard_size;
  };
  EXPECT_EQ(size("'all'"), -1);
  EXPECT_EQ(size("true"), -1);
  EXPECT_EQ(size("'none'"), 0);
  EXPECT_EQ(size("false"), 0);
  EXPECT_EQ(size("0"), 0);
  EXPECT_EQ(size("1"), 0);
  EXPECT_EQ(size("2"), 2);
  EXPECT_EQ(layout_by_rule("cut = ['tp']", {8}).optimizer_shard_size, 0);
}

TEST(RulesOptimizer, HasADefaultForRulesAlone) {
  const StrategyRules rules = rules_of(
      "[devices]\naxes = ['dp=2', 'tp=4']\noptimizer = 2\n"
      "[[rule]]\nmatch = 'a'\n[[rule]]\nmatch = 'b'\noptimizer = false\n");
  const StageLayouts layouts = rules.apply({{"a", {8}}, {"b", {8}}, {"c", {8}}}).stage(0);
  EXPECT_EQ(layouts.at("a").optimizer_shard_size, 2);
  EXPECT_EQ(layouts.at("b").optimizer_shard_size, 0);
  EXPECT_EQ(layouts.at("c").optimizer_shard_size, 0);
}

TEST(RulesUneven, BalancesAllCutDimensionsOrThoseListed) {
  const DimensionSplit even;
  const DimensionSplit balanced{.balanced = true};
  EXPECT_EQ(layout_by_rule("cut = ['tp', '', 'dp']\nuneven = 'balanced'", {9, 9, 9, 9}).uneven,
            (std::vector<DimensionSplit>{balanced, even, balanced, even}));
  EXPECT_EQ(
      layout_by_rule("cut = ['tp', '', 'dp']\nuneven = ['', '', 'balanced']", {9, 9, 9}).uneven,
      (std::vector<DimensionSplit>{even, even, balanced}));
  EXPECT_THAT(layout_by_rule("cut = ['tp']\nuneven = ['']", {8}).uneven, IsEmpty());
}

TEST(RulesUneven, TakesLengths) {
  const Layout layout =
      layout_by_rule("cut = ['tp', 'dp']\nuneven = [[5, 3, 2, 1], 'balanced']", {11, 3});
  ASSERT_EQ(layout.uneven.size(), 2U);
  EXPECT_THAT(layout.uneven[0].lengths, ElementsAre(5, 3, 2, 1));
  EXPECT_TRUE(layout.uneven[1].balanced);
}

TEST(RulesUneven, TakesFields) {
  EXPECT_EQ(layout_by_rule("cut = ['tp']\nfield = 3", {24}).field, 3);
}

TEST(RulesMatch, TheFirstRuleOfTheFileTakesAParameter) {
  const StrategyRules rules = rules_of(
      "[devices]\naxes = ['tp=2']\n"
      "[[rule]]\nmatch = ['x', 'a.*']\ncut = ['', 'tp']\n"
      "[[rule]]\nmatch = '*'\ncut = ['tp']\n"
      "[[rule]]\nmatch = ['a.*', 'b']\n");
  const std::vector<NamedShape> parameters{{"b", {2, 2}}, {"a.w", {2, 2}}, {"a", {2, 2}}};
  const StageLayouts layouts = rules.apply(parameters).stage(0);
  EXPECT_EQ(layouts.at("a.w").tensor_map, (TensorMap{{}, {0}}));
  EXPECT_EQ(layouts.at("b").tensor_map, (TensorMap{{0}, {}}));

  const std::vector<RuleMatch> matches = rules.matches(parameters);
  ASSERT_EQ(matches.size(), 3U);
  EXPECT_EQ(matches[1].parameter, "a.w");
  EXPECT_EQ(matches[1].rule, 0U);
  EXPECT_EQ(matches[1].line, 3);
  EXPECT_EQ(matches[1].glob, "a.*");
  EXPECT_EQ(matches[2].rule, 1U);

  const std::vector<RuleMatch> unused = rules.unused(parameters);
  ASSERT_EQ(unused.size(), 1U);
  EXPECT_EQ(unused[0].rule, 2U);
  EXPECT_EQ(unused[0].line, 9);
  EXPECT_EQ(unused[0].glob, "a.*, b");
}

TEST(RulesMatch, UnmatchedParametersAreReplicatedOnAllStages) {
  const StrategyRules rules = rules_of(
      "[devices]\naxes = ['tp=2']\nstages = 3\n"
      "[[rule]]\nmatch = 'w'\ncut = ['tp']\nstage = [2, 0]\n");
  const Strategy strategy = rules.apply({{"w", {2}}, {"other", {5, 5}}});
  EXPECT_EQ(strategy.stage_count(), 3);
  EXPECT_EQ(strategy.rank_count(), 6);
  EXPECT_TRUE(strategy.stage_prefixed());
  EXPECT_THAT(strategy.stages_of("w"), ElementsAre(0, 2));
  EXPECT_THAT(strategy.stages_of("other"), ElementsAre(0, 1, 2));
  EXPECT_EQ(strategy.stage(1).at("other").tensor_map, (TensorMap{{}, {}}));
  EXPECT_THAT(rules.matches({{"other", {5, 5}}}), IsEmpty());
}

TEST(RulesMatch, RulesMayBeMissingOrInline) {
  const Strategy strategy = rules_of("devices = {axes = ['tp=1']}\n").apply({{"w", {3}}});
  EXPECT_FALSE(strategy.stage_prefixed());
  EXPECT_THAT(strategy.stage(0).at("w").device_matrix, ElementsAre(1));
  const StrategyRules rules =
      rules_of("rule = [{match = 'w', cut = ['tp']}]\n[devices]\naxes = ['tp=2']\n");
  EXPECT_EQ(rules.apply({{"w", {2}}}).stage(0).at("w").tensor_map, (TensorMap{{0}}));
}

TEST(RulesMatch, AParameterMayBeNamedTwice) {
  const StrategyRules rules = rules_of(with_rule("match = 'w'\ncut = ['tp']"));
  EXPECT_EQ(rules.apply({{"w", {4}}, {"w", {4}}}).stage(0).size(), 1U);
  EXPECT_EQ(refusal_of([&] {
              rules.apply({{"w", {4}}, {"w", {4, 4}}});
            }),
            "parameter 'w': has 1 dimension and also 2");
}

/// The stages of layers 0, 1, ... by a [[layers]] of this content.
std::vector<std::vector<std::int64_t>> stages_of_layers(const std::string& layers, int count,
                                                        const std::string& stages = "2") {
  const StrategyRules rules =
      rules_of("[devices]\naxes = ['tp=2']\nstages = " + stages + "\n[[layers]]\n" + layers);
  std::vector<NamedShape> parameters;
  for (int i = 0; i < count; ++i) {
    parameters.push_back({"adam_m.model.layers." + std::to_string(i) + ".w", {2}});
  }
  const Strategy strategy = rules.apply(parameters);
  std::vector<std::vector<std::int64_t>> result;
  result.reserve(parameters.size());
  for (const NamedShape& parameter : parameters) {
    result.push_back(strategy.stages_of(parameter.name));
  }
  return result;
}

TEST(RulesLayers, SplitCountsLayersOfEachStage) {
  EXPECT_THAT(stages_of_layers("match = 'model.layers.{n}.'\nsplit = [2, 1]\n", 3),
              ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(stages_of_layers("match = 'layers.{n}'\nsplit = [0, 2]\n", 2),
              ElementsAre(ElementsAre(1), ElementsAre(1)));
  // More layers may be placed than there are.
  EXPECT_THAT(stages_of_layers("match = 'layers.{n}'\nsplit = [16, 16]\n", 1),
              ElementsAre(ElementsAre(0)));
}

TEST(RulesLayers, StagesMayBeInterleaved) {
  EXPECT_THAT(stages_of_layers("match = 'layers.{n}.'\nstages = [[0, 2], [3, 1]]\n", 4),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0), ElementsAre(1)));
}

TEST(RulesLayers, NamesAreMatchedAtTheirParts) {
  // "sublayers.0." is no layer, so that it is on both stages.
  const StrategyRules rules = rules_of(
      "[devices]\naxes = ['tp=2']\nstages = 2\n"
      "[[layers]]\nmatch = 'layers.{n}.'\nsplit = [1, 11]\n"
      "[[layers]]\nmatch = 'decoder.{n}.'\nsplit = [1, 1]\n");
  const Strategy strategy = rules.apply({{"sublayers.0.w", {}},
                                         {"sublayers.0.layers.1.w", {}},
                                         {"layers.x.layers.10.w", {}},
                                         {"layers.0w", {}},
                                         {"decoder.1.w", {}}});
  EXPECT_THAT(strategy.stages_of("sublayers.0.w"), ElementsAre(0, 1));
  EXPECT_THAT(strategy.stages_of("sublayers.0.layers.1.w"), ElementsAre(1));
  EXPECT_THAT(strategy.stages_of("layers.x.layers.10.w"), ElementsAre(1));
  EXPECT_THAT(strategy.stages_of("layers.0w"), ElementsAre(0, 1));
  EXPECT_THAT(strategy.stages_of("decoder.1.w"), ElementsAre(1));
}

TEST(RulesLayers, AStageInARuleIsStronger) {
  const StrategyRules rules = rules_of(
      "[devices]\naxes = ['tp=2']\nstages = 2\n"
      "[[layers]]\nmatch = 'layers.{n}.'\nsplit = [2, 0]\n"
      "[[rule]]\nmatch = 'layers.1.*'\nstage = 1\n");
  const Strategy strategy = rules.apply({{"layers.0.w", {2}}, {"layers.1.w", {2}}});
  EXPECT_THAT(strategy.stages_of("layers.0.w"), ElementsAre(0));
  EXPECT_THAT(strategy.stages_of("layers.1.w"), ElementsAre(1));
}

TEST(RulesStrategy, IsWrittenAsMindSporeFiles) {
  const TemporaryDirectory directory;
  const StrategyRules rules = rules_of(
      "[devices]\naxes = ['dp=2', 'tp=4']\nstages = 2\noptimizer = 'all'\n"
      "[[rule]]\nmatch = 'w'\ncut = [['dp', 'tp'], '']\nstage = 1\n"
      "[[rule]]\nmatch = 'v'\ncut = ['tp']\nstage = 0\n");
  const Strategy strategy = rules.apply({{"w", {8, 3}}, {"v", {8}}});
  const Strategy again = Strategy::load(directory.write("s.ckpt", to_protobuf(strategy)));
  EXPECT_EQ(again.stage_count(), 2);
  EXPECT_EQ(again.stage(1).at("w").tensor_map, strategy.stage(1).at("w").tensor_map);
  EXPECT_EQ(again.stage(0).at("v").optimizer_shard_size, -1);
}

}  // namespace
}  // namespace reshardfs::testing
