// SPDX-License-Identifier: Apache-2.0
/// Target strategies from the source's.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Layout layout_of(std::vector<std::int64_t> matrix, TensorMap map, std::int64_t optimizer = 0) {
  Layout layout;
  layout.device_matrix = std::move(matrix);
  layout.tensor_map = std::move(map);
  layout.optimizer_shard_size = optimizer;
  return layout;
}

Strategy strategy_of(std::vector<StageLayouts> stages) {
  const bool several = stages.size() > 1;
  return {std::move(stages), 0, several};
}

/// The layout of the one parameter after the derivation.
Layout derived(const std::string& text, const Layout& source) {
  return derive_strategy(parse_derivation(text), strategy_of({{{"w", source}}})).stage(0).at("w");
}

std::string refusal_for(const std::string& text, const Layout& source) {
  return refusal_of([&] { derived(text, source); });
}

/// Stages of these parameters, none of them cut.
Strategy staged(const std::vector<std::vector<std::string>>& names) {
  std::vector<StageLayouts> stages;
  for (const auto& list : names) {
    StageLayouts& stage = stages.emplace_back();
    for (const std::string& name : list) stage.try_emplace(name, layout_of({2}, {{}}));
  }
  return strategy_of(std::move(stages));
}

std::vector<std::vector<std::string>> names_of(const Strategy& strategy) {
  std::vector<std::vector<std::string>> names;
  for (const StageLayouts& stage : stages_of(strategy)) {
    auto& list = names.emplace_back();
    for (const auto& item : stage) list.push_back(item.first);
  }
  return names;
}

TEST(DerivationText, IsToldFromAPath) {
  for (const char* text : {"tp=8", "tp=8,dp=2,pp=1", "pt=3", " tp = 2", "MP=2", "tp="}) {
    EXPECT_TRUE(is_derivation(text)) << text;
  }
  for (const char* text : {"", "tp", "=2", "./tp=2", "tp=2/strategy", "run=3.ckpt", "run=3.toml",
                           "a=3.json", "strategy.ckpt", "none", "step_3=x"}) {
    EXPECT_FALSE(is_derivation(text)) << text;
  }
}

TEST(DerivationText, IsRefusedWhereItIsWrong) {
  const auto refusal = [](const std::string& text) {
    try {
      derived(text, layout_of({4}, {{0}}));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << text;
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(""), "'': '' has no '='");
  EXPECT_EQ(refusal("tp=2,"), "'tp=2,': '' has no '='");
  EXPECT_EQ(refusal("tp=2,dp"), "'tp=2,dp': 'dp' has no '='");
  EXPECT_EQ(refusal("pt=2"), "'pt=2': 'pt' is unknown; use tp (or mp), dp, ep, pp, opt (or op)");
  EXPECT_EQ(refusal("tp=2,ep=2"),
            "'tp=2,ep=2': ep cannot be derived from a source strategy, which does not say which "
            "cuts are those of experts");
  EXPECT_EQ(refusal("tp=2,mp=2"), "'tp=2,mp=2': 'mp' is given twice");
  for (const std::string value : {"", "0", "-1", "2x", "1.5", "1048577", "99999999999999999999"}) {
    EXPECT_THAT(refusal("dp=" + value),
                HasSubstr("dp is '" + value + "', expected a number from 1 to 1048576"));
  }
  EXPECT_THAT(refusal("opt=some"), HasSubstr("opt is 'some', expected on, off or a number"));
  EXPECT_EQ(refusal("tp=1024,dp=2048"), "dp times tp is more than 1048576");
}

TEST(Derivation, CutDimensionsStayAndSizesChange) {
  const Layout source = layout_of({2, 4}, {{}, {0}});
  EXPECT_EQ(derived("tp=8,dp=3", source), layout_of({3, 8}, {{}, {0}}));
  EXPECT_EQ(derived(" mp = 2 , dp=1", source), layout_of({2}, {{}, {0}}));
  EXPECT_EQ(derived("tp=1,dp=2", source), layout_of({2}, {{}, {}}));
  EXPECT_EQ(derived("tp=1", source), layout_of({1}, {{}, {}}));
}

TEST(Derivation, WhatIsNotSaidIsTheSourcesButForDp) {
  const Layout source = layout_of({2, 4}, {{0}});
  EXPECT_EQ(derived("dp=1", source), layout_of({4}, {{0}}));
  EXPECT_EQ(derived("pp=1", source), layout_of({4}, {{0}}));
  EXPECT_EQ(derive_strategy(parse_derivation("tp=1"), staged({{"a"}, {"b"}})).stage_count(), 2);
}

TEST(Derivation, GroupsOfDifferentDeviceMatricesAreCompared) {
  // Each of the three is cut over neighbouring fours of 8 devices.
  const Strategy source = strategy_of({{{"a", layout_of({2, 4}, {{0}})},
                                        {"b", layout_of({2, 2, 2}, {{1, 0}, {}})},
                                        {"c", layout_of({2, 1, 4, 1}, {{2, 1}})},
                                        {"d", layout_of({8}, {{}})}}});
  const StageLayouts layouts = derive_strategy(parse_derivation("tp=2"), source).stage(0);
  EXPECT_EQ(layouts.at("a"), layout_of({2}, {{0}}));
  EXPECT_EQ(layouts.at("b"), layout_of({2}, {{0}, {}}));
  EXPECT_EQ(layouts.at("c"), layout_of({2}, {{0}}));
  EXPECT_EQ(layouts.at("d"), layout_of({2}, {{}}));
}

TEST(Derivation, SeveralGroupsAreAmbiguous) {
  const Strategy source = strategy_of({{{"a", layout_of({2, 4}, {{0}})},
                                        {"b", layout_of({4, 2}, {{1}})},
                                        {"c", layout_of({4, 2}, {{1}})},
                                        {"d", layout_of({4, 2}, {{1}})}}});
  EXPECT_EQ(refusal_of([&] { derive_strategy(parse_derivation("tp=2"), source); }),
            "its parameters are cut over 2 different axes, so a single tp is "
            "ambiguous (axes are counted from the last, as in tensor maps): axis 0 of the device "
            "matrix [2, 4] "
            "cuts 'a'; axis 1 of the device matrix [4, 2] cuts 'b', 'c' and 1 more; write rules "
            "for the target instead: see reshardfs-strategy(5)");
  // The minor axis first is another order of the parts, and a part of an axis another group.
  EXPECT_THAT(refusal_for("tp=2", layout_of({2, 2}, {{0}, {1}})), HasSubstr("2 different axes"));
  EXPECT_THAT(refusal_of([&] {
                derive_strategy(parse_derivation("tp=2"),
                                strategy_of({{{"a", layout_of({2, 2}, {{0, 1}})},
                                              {"b", layout_of({2, 2}, {{1, 0}})}}}));
              }),
              HasSubstr("axes 0, 1 of the device matrix [2, 2] cuts 'a'"));
}

TEST(Derivation, WithoutCutsThereIsNoTensorParallelism) {
  EXPECT_EQ(derived("dp=4", layout_of({8}, {{}})), layout_of({4}, {{}}));
  EXPECT_EQ(refusal_for("tp=2", layout_of({8}, {{}})),
            "the source cuts no parameter, which leaves open which dimensions tp=2 would cut: "
            "'w'; write rules for the target instead: see reshardfs-strategy(5)");
}

TEST(DerivedOptimizerCut, FollowsTheSourceWhereThereIsDataParallelism) {
  const auto size = [](const std::string& text, std::int64_t source) {
    return derived(text, layout_of({4, 2}, {{0}}, source)).optimizer_shard_size;
  };
  EXPECT_EQ(size("dp=2", 0), 0);
  EXPECT_EQ(size("dp=2", 1), 0);
  EXPECT_EQ(size("dp=1", -1), 0);
  EXPECT_EQ(size("dp=2", -1), -1);
  EXPECT_EQ(size("dp=2", 4), -1);  // as many as devices hold the slice
  EXPECT_EQ(size("dp=4", 2), 2);
  EXPECT_EQ(size("dp=8", 2), 2);
  const auto three = [](const std::string& text) {
    return derived(text, layout_of({9, 2}, {{0}}, 3)).optimizer_shard_size;
  };
  EXPECT_EQ(three("dp=2"), 2);  // fewer devices than parts: as many as there are
  EXPECT_EQ(refusal_for("dp=4", layout_of({9, 2}, {{0}}, 3)),
            "parameter 'w': the optimizer cut into 3 parts cannot be shared equally by 4 devices "
            "with the same slice; give opt=off, opt=on or a number that divides dp");
}

TEST(DerivedOptimizerCut, MayBeSaid) {
  const auto size = [](const std::string& text, const Layout& source) {
    return derived(text, source).optimizer_shard_size;
  };
  const Layout plain = layout_of({2, 2}, {{0}});
  EXPECT_EQ(size("dp=4,opt=on", plain), -1);
  EXPECT_EQ(size("dp=4,op=all", plain), -1);
  EXPECT_EQ(size("dp=4,opt=2", plain), 2);
  EXPECT_EQ(size("dp=4,opt=1", plain), 0);
  EXPECT_EQ(size("dp=4,opt=0", layout_of({2, 2}, {{0}}, -1)), 0);
  EXPECT_EQ(size("dp=4,opt=off", layout_of({2, 2}, {{0}}, -1)), 0);
  EXPECT_EQ(size("dp=4,opt=on", layout_of({2}, {})), 0);
  EXPECT_THAT(refusal_for("dp=4,opt=8", plain), HasSubstr("8 parts cannot be shared equally by 4"));
  EXPECT_THAT(refusal_for("dp=1,opt=2", plain), HasSubstr("by 1 device with"));
}

TEST(DerivedOptimizerCut, IsForTheParametersThatHaveItInTheSource) {
  const Strategy source =
      strategy_of({{{"w", layout_of({2, 2}, {{0}})}, {"adam_m.w", layout_of({2, 2}, {{0}}, -1)}}});
  const StageLayouts layouts = derive_strategy(parse_derivation("dp=4,opt=2"), source).stage(0);
  EXPECT_EQ(layouts.at("w").optimizer_shard_size, 0);
  EXPECT_EQ(layouts.at("adam_m.w").optimizer_shard_size, 2);
}

TEST(DerivedUnevenCuts, StayWhereTheyHaveAMeaning) {
  Layout source = layout_of({4}, {{0}, {}});
  source.uneven = {{.balanced = true}, {}};
  EXPECT_EQ(derived("tp=3", source).uneven, source.uneven);
  EXPECT_THAT(derived("tp=1", source).uneven, IsEmpty());
  source.uneven[0] = {.lengths = {1, 2, 3, 4}};
  EXPECT_EQ(derived("tp=4,dp=2", source).uneven, source.uneven);
  EXPECT_THAT(derived("tp=1", source).uneven, IsEmpty());
  EXPECT_THAT(refusal_for("tp=2", source), HasSubstr("lengths [1, 2, 3, 4]"));
}

TEST(DerivedUnevenCuts, OfMindSporeFilesToo) {
  Layout source = layout_of({4}, {{0}, {}});
  source.param_split_shape = {{3, 9, 1, 7}};
  source.indices_offset = {{0, 3, 12, 13}};
  EXPECT_EQ(derived("dp=2", source).param_split_shape, source.param_split_shape);
  EXPECT_EQ(derived("dp=2", source).indices_offset, source.indices_offset);
  EXPECT_THAT(derived("tp=1", source).param_split_shape, IsEmpty());
  EXPECT_THAT(refusal_for("tp=2", source), HasSubstr("lengths [3, 9, 1, 7]"));
  Layout field = layout_of({2}, {{0}, {}});
  field.field = 4;
  EXPECT_EQ(derived("tp=4", field).field, 4);
  EXPECT_EQ(derived("tp=1", field).field, 0);
}

TEST(DerivedStages, AreTheSourcesIfTheirNumberIs) {
  const std::vector<std::vector<std::string>> names{{"a", "x"}, {"b", "layers.0.w"}};
  EXPECT_EQ(names_of(derive_strategy(parse_derivation("dp=4"), staged(names))), names);
  EXPECT_EQ(names_of(derive_strategy(parse_derivation("pp=2"), staged(names))), names);
}

TEST(DerivedStages, AreJoined) {
  const Strategy source = staged({{"emb", "l.0.w"}, {"emb", "l.1.w"}, {"head"}});
  EXPECT_THAT(names_of(derive_strategy(parse_derivation("pp=1"), source)),
              ElementsAre(ElementsAre("emb", "head", "l.0.w", "l.1.w")));
  EXPECT_FALSE(derive_strategy(parse_derivation("pp=1"), source).stage_prefixed());
}

TEST(DerivedStages, LayersAreDividedEvenlyAndTheFirstStagesGetMore) {
  const Strategy source = staged({{"adam_m.l.0.w", "emb", "l.0.w", "l.1.w"},
                                  {"l.2.w", "l.3.w"},
                                  {"l.4.w", "l.5.w"},
                                  {"adam_m.l.10.w", "head", "l.10.w"}});
  EXPECT_THAT(names_of(derive_strategy(parse_derivation("pp=3"), source)),
              ElementsAre(ElementsAre("adam_m.l.0.w", "emb", "l.0.w", "l.1.w", "l.2.w"),
                          ElementsAre("l.3.w", "l.4.w"),
                          ElementsAre("adam_m.l.10.w", "head", "l.10.w", "l.5.w")));
}

TEST(DerivedStages, InterleavedSourcesBecomeContiguous) {
  const Strategy source = staged({{"l.0.w", "l.2.w"}, {"l.1.w", "l.3.w"}});
  EXPECT_THAT(names_of(derive_strategy(parse_derivation("pp=4"), source)),
              ElementsAre(ElementsAre("l.0.w"), ElementsAre("l.1.w"), ElementsAre("l.2.w"),
                          ElementsAre("l.3.w")));
}

TEST(DerivedStages, SharedParametersStayShared) {
  // Tied embeddings are in the first and the last stage; their optimizer states go with them.
  const Strategy tied = staged({{"adam_v.emb", "emb", "l.0.w"}, {"emb", "l.1.w", "l.2.w"}});
  EXPECT_THAT(names_of(derive_strategy(parse_derivation("pp=3"), tied)),
              ElementsAre(ElementsAre("adam_v.emb", "emb", "l.0.w"), ElementsAre("l.1.w"),
                          ElementsAre("adam_v.emb", "emb", "l.2.w")));
  const Strategy everywhere = staged({{"f", "l.0.w"}, {"f", "l.1.w"}, {"f", "l.2.w"}});
  EXPECT_THAT(names_of(derive_strategy(parse_derivation("pp=2"), everywhere)),
              ElementsAre(ElementsAre("f", "l.0.w", "l.1.w"), ElementsAre("f", "l.2.w")));
}

TEST(DerivedStages, SharedParametersMustBeCutAlike) {
  const Strategy source =
      strategy_of({{{"emb", layout_of({2}, {{0}, {}})}}, {{"emb", layout_of({2}, {{}, {0}})}}});
  EXPECT_EQ(refusal_of([&] { derive_strategy(parse_derivation("pp=1"), source); }),
            "parameter 'emb': stages 0 and 1 of the source cut it differently: device matrix [2], "
            "tensor map [0, -1]; device matrix [2], tensor map [-1, 0]");
  EXPECT_EQ(derive_strategy(parse_derivation("dp=2"), source).stage(1).at("emb").tensor_map,
            (TensorMap{{}, {0}}));
}

TEST(DerivedStages, HaveAsManyLayersAsIsWanted) {
  const Strategy source = staged({{"adam_m.l.0.w", "emb", "l.0.w", "l.1.w"}, {"head", "l.2.w"}});
  EXPECT_THAT(names_of(derive_strategy(parse_derivation("pp=3"), source, {0, 1, 2})),
              ElementsAre(ElementsAre("emb"), ElementsAre("adam_m.l.0.w", "l.0.w"),
                          ElementsAre("head", "l.1.w", "l.2.w")));
  EXPECT_THAT(names_of(derive_strategy(parse_derivation("dp=2"), source, {1, 2})),
              ElementsAre(ElementsAre("adam_m.l.0.w", "emb", "l.0.w"),
                          ElementsAre("head", "l.1.w", "l.2.w")));
  EXPECT_EQ(refusal_of(
                [&] {
                  derive_strategy(parse_derivation("pp=3"), source, {1, 2});
                },
                ErrorKind::kUsage),
            "--stage-layers 1,2: 2 numbers for pp=3; give the number of layers of each stage");
  EXPECT_EQ(refusal_of(
                [&] {
                  derive_strategy(parse_derivation("pp=2"), source, {2, 2});
                },
                ErrorKind::kUsage),
            "--stage-layers 2,2: the sum is 4, but the model has 3 layers");
}

TEST(DerivedStages, SharedParametersMustBeCutAlikeWhereLayersMove) {
  const Strategy source =
      strategy_of({{{"emb", layout_of({2}, {{0}, {}})}, {"l.0.w", layout_of({2}, {{0}})}},
                   {{"emb", layout_of({2}, {{}, {0}})}, {"l.1.w", layout_of({2}, {{0}})}}});
  EXPECT_THAT(refusal_of([&] {
                derive_strategy(parse_derivation("tp=2"), source, {0, 2});
              }),
              HasSubstr("cut it differently"));
}

std::string stage_refusal(const std::string& text,
                          const std::vector<std::vector<std::string>>& names) {
  return refusal_of([&] { derive_strategy(parse_derivation(text), staged(names)); });
}

TEST(DerivedStages, AreRefusedWhereAPlaceIsUnknown) {
  EXPECT_EQ(stage_refusal("pp=2", {{"emb", "head", "l.0.w", "l.1.w"}}),
            "the source has one stage, which leaves open where to place parameters outside the "
            "layers: 'emb', 'head'; write rules for the target instead: see reshardfs-strategy(5)");
  EXPECT_EQ(stage_refusal("pp=2", {{"l.0.w"}, {"bridge", "l.1.w"}, {"l.2.w"}}),
            "these belong to no layer and are neither in the first nor in the last stage of the "
            "source: 'bridge'; write rules for the target instead: see reshardfs-strategy(5)");
  EXPECT_EQ(stage_refusal("pp=3", {{"l.0.w"}, {"l.1.w"}}),
            "the layers 'l.<number>.' are 2, fewer than pp=3");
  EXPECT_THAT(stage_refusal("pp=3", {{"a"}, {"b.1"}}),
              HasSubstr("no parameter name contains a layer number"));
  EXPECT_THAT(stage_refusal("pp=3", {{"dec.0.w", "dec.1.w"}, {"enc.0.w", "enc.1.w"}}),
              HasSubstr("layers may be counted behind any of 'dec.', 'enc.'"));
}

TEST(DerivedStages, LayersOfOneStageCanBeDividedIfThereIsNothingElse) {
  EXPECT_THAT(names_of(derive_strategy(parse_derivation("pp=2"), staged({{"l.0.w", "l.1.w"}}))),
              ElementsAre(ElementsAre("l.0.w"), ElementsAre("l.1.w")));
}

TEST(DerivedStrategy, StartsAtStageZero) {
  const Strategy source({{{"w", layout_of({4}, {{0}})}}}, 3, false);
  EXPECT_EQ(derive_strategy(parse_derivation("tp=2"), source).first_stage(), 0);
}

}  // namespace
}  // namespace reshardfs::testing
