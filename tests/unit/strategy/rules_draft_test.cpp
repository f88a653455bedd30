// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules/rules_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/strategy_rules.h"

#include "rules_samples.h"

namespace reshardfs::rules_draft_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ParallelSizes drafted_sizes(const std::string& text) {
  return ParallelSizes::of(parse_derivation(text));
}

DraftedParameter known(const std::string& name, const Shape& shape,
                       std::optional<std::size_t> tensor_cut, std::vector<std::int64_t> stages) {
  return {{name, shape.size(), tensor_cut, {}, std::move(stages)}, shape, {}, {}};
}

DraftedParameter blank(const std::string& name, const Shape& shape, const std::string& cut,
                       const std::string& stage, std::vector<std::int64_t> stages = {}) {
  return {{name, shape.size(), {}, {}, std::move(stages)}, shape, cut, stage};
}

TEST(RulesDraft, SaysWhatIsKnown) {
  const RulesDraft draft =
      draft_rules(drafted_sizes("tp=2,dp=3,pp=2"),
                  {known("emb", {8, 4}, 0, {0, 1}), known("l.0.w", {4, 8}, 1, {0}),
                   known("l.1.w", {4, 8}, 1, {1}), known("norm", {4}, {}, {1})},
                  {"By hand."});
  EXPECT_EQ(draft.blanks, 0U);
  EXPECT_EQ(draft.text, R"(# By hand.

[devices]
axes = ["dp=3", "tp=2"]
stages = 2
unmatched = "error"

[[layers]]
match = "l.{n}."
split = [1, 1]

[[rule]]
match = "emb"
cut = ["tp", ""]

[[rule]]
match = "l.*.w"
cut = ["", "tp"]

[[rule]]
match = "norm"
stage = 1
)");
}

TEST(RulesDraft, HasABlankForEachKindOfName) {
  const RulesDraft draft = draft_rules(drafted_sizes("tp=2,ep=2"),
                                       {blank("l.0.up", {8, 3}, "nobody says", "", {0}),
                                        blank("l.1.up", {8, 3}, "nobody says", "", {0}),
                                        blank("adam_m.l.1.up", {8, 3}, "nobody says", "", {0}),
                                        blank("l.0.down", {8, 3}, "nobody says", "", {0})},
                                       {});
  EXPECT_EQ(draft.blanks, 2U);
  EXPECT_THAT(draft.text, HasSubstr("'l.{0,1}.up'"));
  EXPECT_THAT(draft.text, HasSubstr(R"(#cut = ["ep", ""]
#cut = ["tp", ""]
undecided = true
)"));
  // A half of 3 is none.
  EXPECT_THAT(draft.text, Not(HasSubstr(R"(["", "tp"])")));
}

TEST(RulesDraft, AsksForStages) {
  const RulesDraft draft =
      draft_rules(drafted_sizes("pp=2"),
                  {known("l.0.w", {4}, {}, {0}), known("l.1.w", {4}, {}, {1}),
                   blank("l.0.v", {4}, "", "why"), blank("l.2.w", {4}, "", "why"),
                   blank("blk.3.x", {4}, "", "why"), blank("score", {4}, "", "why")},
                  {});
  EXPECT_EQ(draft.blanks, 4U);
  EXPECT_THAT(draft.text, HasSubstr("match = \"l.0.v\"\nundecided = true\n"));
  EXPECT_THAT(draft.text, HasSubstr("match = \"l.2.w\"\n#stage = 0\nundecided = true\n"));
  EXPECT_THAT(draft.text, HasSubstr("match = \"score\"\n#stage = 0\nundecided = true\n"));
  EXPECT_THAT(draft.text, HasSubstr("#[[layers]]\n#match = \"blk.{n}.\"\n#split = [2, 2]\n"));
  EXPECT_THAT(draft.text, Not(HasSubstr("#match = \"l.")));
}

TEST(RulesDraft, RefusesUntilItIsCompleted) {
  const std::vector<NamedShape> parameters{{"v", {8, 4}}, {"w", {8, 4}}};
  std::string text =
      draft_rules(drafted_sizes("tp=2"),
                  {blank("v", {8, 4}, "why", "", {0}), known("w", {8, 4}, 0, {0})}, {})
          .text;
  const auto apply = [&] { return testing::rules_of(text).apply(parameters); };
  EXPECT_THAT(testing::refusal_of(apply), AllOf(HasSubstr("line 6"), HasSubstr("'v'")));
  const std::string mark = "#cut = [\"\", \"tp\"]\nundecided = true\n";
  text.replace(text.find(mark), mark.size(), "cut = [\"\", \"tp\"]\n");
  const Strategy strategy = apply();
  EXPECT_EQ(strategy.stage(0).at("v").tensor_map, (TensorMap{{}, {0}}));
  EXPECT_EQ(strategy.stage(0).at("w").tensor_map, (TensorMap{{0}, {}}));
}

}  // namespace
}  // namespace reshardfs::rules_draft_tests
