// SPDX-License-Identifier: Apache-2.0
/// Strategies written as rules.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules_writer_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Layout layout(std::vector<std::int64_t> matrix, TensorMap map, std::int64_t optimizer = 0) {
  return {.device_matrix = std::move(matrix),
          .tensor_map = std::move(map),
          .optimizer_shard_size = optimizer};
}

Strategy one_stage(StageLayouts layouts) {
  return {{std::move(layouts)}, 0, false};
}

std::string refused(const Strategy& strategy) {
  try {
    return "accepted: " + to_rules(strategy);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << error.what();
    return error.what();
  }
}

constexpr const char* kOthers =
    "# A checkpoint may lack parameters that the strategy lists.\noptional = true\n"
    "# The strategy lists no other parameters; \"replicate\" takes them as whole.\n"
    "unmatched = \"error\"\n";

TEST(RulesWriter, GathersLayersAndOptimizerStatesUnderGlobs) {
  StageLayouts layouts;
  for (const std::string prefix : {"", "adam_m.", "adam_v."}) {
    for (const std::string number : {"0", "1", "11"}) {
      const std::string layer = prefix + "model.layers." + number + ".";
      layouts.insert_or_assign(layer + "attention.wq.weight", layout({2, 4}, {{0}, {}}));
      layouts.insert_or_assign(layer + "attention.wk.weight", layout({2, 4}, {{0}, {}}));
      layouts.insert_or_assign(layer + "attention.wo.weight", layout({2, 4}, {{}, {0}}));
      layouts.insert_or_assign(layer + "norm.weight", layout({2, 4}, {{}}));
    }
  }
  layouts.insert_or_assign("global_step", layout({2, 4}, {}));
  EXPECT_EQ(written(one_stage(layouts)),
            std::string("[devices]\naxes = [\"dp=2\", \"tp=4\"]\n") + kOthers + R"(
[[rule]]
match = ["*model.layers.*.attention.wk.weight", "*model.layers.*.attention.wq.weight"]
cut = ["tp", ""]

[[rule]]
match = "*model.layers.*.attention.wo.weight"
cut = ["", "tp"]

[[rule]]
match = ["global_step", "*model.layers.*.norm.weight"]
)");
}

TEST(RulesWriter, KeepsTheLayoutsThemselvesWhereAllHaveOneDeviceMatrix) {
  const Strategy strategy = one_stage({{"a", layout({2, 1, 4}, {{0}, {}})},
                                       {"b", layout({2, 1, 4}, {{}, {2, 0}}, -1)},
                                       {"c", layout({2, 1, 4}, {{2}}, 2)},
                                       {"d", layout({2, 1, 4}, {{}}, -1)}});
  EXPECT_EQ(stages_of(rules_of(to_rules(strategy)).apply(parameters_of(strategy))).front().at("c"),
            strategy.stage(0).at("c"));
  EXPECT_EQ(stages_of(rules_of(to_rules(strategy)).apply(parameters_of(strategy))).front().at("d"),
            strategy.stage(0).at("d"));
  EXPECT_THAT(written(strategy), HasSubstr("axes = [\"mp1=2\", \"dp=1\", \"mp2=4\"]"));
}

TEST(RulesWriter, FindsAxesThatAllDeviceMatricesShare) {
  const std::string text = written(one_stage({{"whole", layout({8}, {{}})},
                                              {"one", layout({2, 4}, {{0}, {}})},
                                              {"two", layout({4, 1, 2}, {{0}, {2}})},
                                              {"all", layout({8}, {{0}})},
                                              {"turned", layout({2, 2, 2}, {{0, 1, 2}})}}));
  EXPECT_THAT(text, HasSubstr("axes = [\"mp1=2\", \"mp2=2\", \"mp3=2\"]"));
  EXPECT_THAT(text, HasSubstr("match = \"one\"\ncut = [[\"mp2\", \"mp3\"], \"\"]"));
  EXPECT_THAT(text, HasSubstr("match = \"two\"\ncut = [\"mp3\", [\"mp1\", \"mp2\"]]"));
  EXPECT_THAT(text, HasSubstr("match = \"turned\"\ncut = [[\"mp3\", \"mp2\", \"mp1\"]]"));
}

TEST(RulesWriter, LeavesAxesOutThatCutNothing) {
  EXPECT_THAT(written(one_stage({{"a", layout({2, 2, 2}, {{0}})}, {"b", layout({8}, {{}}, -1)}})),
              HasSubstr("axes = [\"dp=4\", \"tp=2\"]"));
  EXPECT_THAT(written(one_stage({{"a", layout({}, {})}})), HasSubstr("axes = [\"dp=1\"]"));
}

TEST(RulesWriter, RefusesAxesThatDoNotFitTogether) {
  EXPECT_EQ(refused(one_stage({{"a", layout({2, 3}, {{0}})}, {"b", layout({3, 2}, {{1}, {}})}})),
            "parameter 'b': rules have the same axes for all parameters, but its layout (device "
            "matrix [3, 2], tensor map [1, -1]) needs axes of blocks of 2 devices, and that of 'a' "
            "(device matrix [2, 3], tensor map [0]) of 3; keep MindSpore's form of this strategy");
  EXPECT_THAT(refused(one_stage({{"a", layout({3, 2}, {{0}})}, {"b", layout({2, 3}, {{0}})}})),
              HasSubstr("needs axes of blocks of 3 devices, and that of 'a' (device matrix [3, 2], "
                        "tensor map [0]) of 2"));
  // What is cut by an optimizer alone needs no axes.
  written(one_stage({{"a", layout({2, 3}, {{0}})}, {"b", layout({3, 2}, {{}, {}}, 3)}}));
}

TEST(RulesWriter, SaysWhatMostParametersShareOnce) {
  const std::string text = written(one_stage({{"a", layout({2, 4}, {{0}}, -1)},
                                              {"b", layout({2, 4}, {{}, {0}}, -1)},
                                              {"c", layout({2, 4}, {{}}, 4)},
                                              {"d", layout({2, 4}, {{}})}}));
  EXPECT_THAT(text, HasSubstr("optimizer = \"all\"\n# A checkpoint"));
  EXPECT_THAT(text, HasSubstr("match = \"a\"\ncut = [\"tp\"]\n\n"));
  EXPECT_THAT(text, HasSubstr("match = \"c\"\noptimizer = 4\n"));
  EXPECT_THAT(text, HasSubstr("match = \"d\"\noptimizer = \"none\"\n"));
}

TEST(RulesWriter, WritesExceptionsFirst) {
  StageLayouts layouts;
  for (int i = 0; i < 12; ++i) {
    layouts.insert_or_assign("layers." + std::to_string(i) + ".w",
                             layout({4}, {{0}}, i == 3 ? 0 : -1));
    layouts.insert_or_assign("layers." + std::to_string(i) + ".b",
                             layout({4}, {{i == 10 ? 0 : 1}}));
    if (i != 10) layouts.insert_or_assign("layers." + std::to_string(i) + ".b", layout({4}, {{}}));
  }
  const std::string text = written(one_stage(layouts));
  EXPECT_THAT(text, HasSubstr("rule applies.\n\n[[rule]]\nmatch = \"layers.10.b\"\ncut = "));
  EXPECT_THAT(text, HasSubstr("match = \"layers.*.w\"\n"));
  EXPECT_THAT(text, HasSubstr("match = \"layers.*.b\"\n"));
}

TEST(RulesWriter, NeverLetsAGlobTakeOthers) {
  // "layers.*.w" would take "layers.0.extra.w", and "*tied" would take "untied".
  StageLayouts layouts;
  for (const std::string number : {"0", "1", "12"}) {
    layouts.insert_or_assign("layers." + number + ".w", layout({4}, {{0}}));
    layouts.insert_or_assign("layers." + number + ".extra.w", layout({4}, {{}}));
  }
  layouts.insert_or_assign("tied", layout({4}, {{0}}));
  layouts.insert_or_assign("adam_m.tied", layout({4}, {{0}}));
  layouts.insert_or_assign("untied", layout({4}, {{}}));
  const std::string text = written(one_stage(layouts));
  EXPECT_THAT(text, HasSubstr("\"layers.[0-9].w\""));
  EXPECT_THAT(text, HasSubstr("\"layers.[0-9][0-9].w\""));
  EXPECT_THAT(text, HasSubstr("\"layers.*.extra.w\""));
  EXPECT_THAT(text, HasSubstr("\"adam_m.tied\""));
  EXPECT_THAT(text, Not(HasSubstr("*tied")));
}

TEST(RulesWriter, StatesMayBeLaidOutDifferently) {
  const std::string text = written(one_stage({{"l.0.w", layout({4}, {{}})},
                                              {"l.1.w", layout({4}, {{}})},
                                              {"moments.l.0.w", layout({4}, {{}}, -1)},
                                              {"moments.l.1.w", layout({4}, {{}}, -1)}}));
  EXPECT_THAT(text, HasSubstr("match = \"moments.l.*.w\""));
  EXPECT_THAT(text, HasSubstr("match = \"l.*.w\""));
}

TEST(RulesWriter, EscapesNames) {
  const std::string text = written(one_stage({{"a*[x]?\\b'", layout({4}, {{0}})},
                                              {"a*[x]?\\bb", layout({4}, {{}})},
                                              {"quote\"tab\t", layout({4}, {{0}})},
                                              {"层.0.权重", layout({4}, {{}})},
                                              {"w[0]", layout({4}, {{0}})},
                                              {"w0", layout({4}, {{}})}}));
  EXPECT_THAT(text, HasSubstr("'w\\[0]'"));
  EXPECT_THAT(text, HasSubstr("\"a\\\\*\\\\[x]\\\\?\\\\\\\\b'\""));
  EXPECT_THAT(text, HasSubstr("\"quote\\\"tab\\u0009\""));
}

TEST(RulesWriter, RefusesNamesThatRulesCannotHold) {
  EXPECT_EQ(refused(one_stage({{"\xff", layout({4}, {{0}})}})),
            "rules cannot hold the name '\\xff', which is not UTF-8 or has a NUL in it");
  EXPECT_THAT(refused(one_stage({{std::string("a\0b", 3), layout({4}, {{0}})}})),
              HasSubstr("has a NUL in it"));
  EXPECT_EQ(refused(one_stage({{"", layout({4}, {{0}})}})), "rules cannot match an empty name");
}

TEST(RulesWriter, PlacesLayers) {
  std::vector<StageLayouts> stages(2);
  for (int i = 0; i < 4; ++i) {
    const auto stage = static_cast<std::size_t>(i / 2);
    stages[stage].insert_or_assign("model.layers." + std::to_string(i) + ".w", layout({4}, {{0}}));
    stages[stage].insert_or_assign("adam_m.model.layers." + std::to_string(i) + ".w",
                                   layout({4}, {{0}}));
    stages[1 - stage].insert_or_assign("decoder.layers." + std::to_string(i) + ".w",
                                       layout({4}, {{0}}));
    // Found in "decoder.layers.0." too, so that it must stand behind.
    stages[stage].insert_or_assign("layers." + std::to_string(i) + ".w", layout({4}, {{0}}));
  }
  stages[0].insert_or_assign("embedding", layout({4}, {{0}}));
  stages[1].insert_or_assign("embedding", layout({4}, {{0}}));
  stages[1].insert_or_assign("head", layout({4}, {{0}}));
  const std::string text = written({stages, 0, true});
  EXPECT_THAT(text, HasSubstr("stages = 2\n"));
  EXPECT_THAT(text, HasSubstr("match = \"model.layers.{n}.\"\nsplit = [2, 2]\n"));
  EXPECT_THAT(text, HasSubstr("match = \"decoder.layers.{n}.\"\nstages = [[2, 3], [0, 1]]\n"));
  EXPECT_THAT(text, HasSubstr("match = \"head\"\ncut = [\"tp\"]\nstage = 1\n"));
  EXPECT_THAT(
      text, HasSubstr("\"embedding\", \"layers.*.w\", \"*model.layers.*.w\"]\ncut = [\"tp\"]\n\n"));
}

TEST(RulesWriter, SaysTheStageOfWhatIsInNoOrder) {
  std::vector<StageLayouts> stages(3);
  // The same number is in two stages, so that numbers say nothing.
  stages[0].insert_or_assign("block.0.a", layout({2}, {{0}}));
  stages[1].insert_or_assign("block.0.b", layout({2}, {{0}}));
  stages[1].insert_or_assign("block.1.a", layout({2}, {{0}}));
  stages[2].insert_or_assign("block.1.b", layout({2}, {{0}}));
  stages[0].insert_or_assign("shared", layout({2}, {{}}));
  stages[2].insert_or_assign("shared", layout({2}, {{}}));
  const std::string text = written({stages, 0, true});
  EXPECT_THAT(text, Not(HasSubstr("[[layers]]")));
  EXPECT_THAT(text, HasSubstr("match = \"shared\"\nstage = [0, 2]\n"));
  EXPECT_THAT(text, HasSubstr("match = \"block.0.a\"\ncut = [\"tp\"]\nstage = 0\n"));
}

TEST(RulesWriter, RefusesStagesThatDisagree) {
  EXPECT_EQ(
      refused({{{{"w", layout({4}, {{0}})}}, {{"w", layout({4}, {{}})}}}, 0, true}),
      "parameter 'w': rules cannot express that it is laid out differently in stage 0 (device "
      "matrix [4], tensor map [0]) and stage 1 (device matrix [4], tensor map [-1]); keep "
      "MindSpore's form of this strategy");
  EXPECT_EQ(refused({{{{"w", layout({4}, {{0}})}}}, 1, false}),
            "it is of pipeline stage 1 alone, and rules are for all stages; name the files of all "
            "stages, or a directory with them");
}

TEST(RulesWriter, WritesUnevenAndFieldSplits) {
  Layout uneven = layout({2, 2}, {{1}, {0}});
  uneven.param_split_shape = {{3, 3, 5, 5}};  // a length for each of four slices
  EXPECT_THAT(written(one_stage({{"w", uneven}}), 8),
              HasSubstr("cut = [\"mp1\", \"mp2\"]\nuneven = [[3, 5], \"\"]\n"));
  Layout whole = layout({4}, {{}});
  whole.param_split_shape = {{8}};
  EXPECT_THAT(written(one_stage({{"w", whole}}), 8), Not(HasSubstr("uneven")));
  Layout balanced = layout({4}, {{0}, {}});
  balanced.uneven = {{.balanced = true}, {}};
  EXPECT_THAT(written(one_stage({{"w", balanced}}), 9), HasSubstr("uneven = \"balanced\"\n"));
  Layout fields = layout({4}, {{0}, {}});
  fields.field = 2;
  EXPECT_THAT(written(one_stage({{"w", fields}}), 16), HasSubstr("field = 2\n"));
  fields.tensor_map = {{}, {0}};
  EXPECT_THAT(written(one_stage({{"w", fields}}), 16), Not(HasSubstr("field")));
}

TEST(RulesWriter, RefusesCutsThatRulesCannotSay) {
  const auto refusal = [](Layout its) { return refused(one_stage({{"w", std::move(its)}})); };
  Layout its = layout({2, 2}, {{1}, {0}});
  its.param_split_shape = {{3, 4, 5, 5}};
  EXPECT_THAT(refusal(its), HasSubstr("parameter 'w': rules cannot express that neighboring slices "
                                      "have different lengths: [3, 4, 5, 5] (device matrix "));
  its.param_split_shape = {{3, 4, 5}};
  EXPECT_THAT(refusal(its), HasSubstr("dimension 0 is cut into 2 parts of the lengths [3, 4, 5]"));
  its.param_split_shape = {{0, 8}};
  EXPECT_THAT(refusal(its), HasSubstr("a part is empty: [0, 8]"));
  its.param_split_shape = {{3, 5}};
  its.field = 2;
  EXPECT_THAT(refusal(its), HasSubstr("dimension 0 is cut both unevenly and by fields"));
  its = layout({4}, {{}}, -1);
  its.field = 2;
  EXPECT_THAT(refusal(its), HasSubstr("the optimizer alone cuts a dimension of 2 fields"));
  EXPECT_THAT(refusal(layout({4}, {{}}, 3)),
              HasSubstr("the optimizer cuts a slice into 3 parts, which the 4 that hold it cannot "
                        "share equally"));
}

}  // namespace
}  // namespace reshardfs::testing
