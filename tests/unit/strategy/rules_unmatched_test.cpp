// SPDX-License-Identifier: Apache-2.0
/// Rules that select nothing of a checkpoint.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules_samples.h"
#include "support/errors.h"

namespace reshardfs::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<NamedShape> kParameters{
    {"layers.0.wq", {4, 4}}, {"layers.1.wq", {4, 4}}, {"norm", {4}}};
const std::string kHead = "[devices]\naxes = ['tp=2']\nstages = 2\n";

std::vector<std::string> unmatched(const std::string& rules) {
  return rules_of(kHead + rules).unmatched(kParameters);
}

TEST(UnmatchedRules, AreNamedByTheirLine) {
  EXPECT_THAT(unmatched("[[rule]]\nmatch = '*.wq'\n[[rule]]\nmatch = 'norn'\n"),
              ElementsAre("line 6: the rule 'norn' matches no parameter; did you mean 'norm'? It "
                          "matches 'norm'"));
}

TEST(UnmatchedRules, EachGlobCounts) {
  EXPECT_THAT(unmatched("[[rule]]\nmatch = ['*.wq', '*.wqq', 'norm']\n"),
              ElementsAre("line 4: the rule '*.wqq' matches no parameter; did you mean '*.wq'? It "
                          "matches 'layers.0.wq'"));
}

TEST(UnmatchedRules, ThoseBeforeMayTakeAll) {
  EXPECT_THAT(
      unmatched("[[rule]]\nmatch = '*'\n[[rule]]\nmatch = 'norm'\n"),
      ElementsAre("line 6: the rule for 'norm' has no effect: rules before it take all that "
                  "it matches"));
}

TEST(UnmatchedRules, LayersAreLookedForToo) {
  EXPECT_THAT(unmatched("[[layers]]\nmatch = 'layers.{n}.'\nsplit = [1, 1]\n"), IsEmpty());
  const auto lines = unmatched("[[layers]]\nmatch = 'layer.{n}.'\nsplit = [1, 1]\n");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0],
              ::testing::StartsWith("line 4: [[layers]] 'layer.{n}.' is in no parameter"));
}

TEST(UnmatchedRules, MayBeOptional) {
  EXPECT_THAT(unmatched("[[rule]]\nmatch = 'x'\noptional = true\n"
                        "[[layers]]\nmatch = 'y{n}'\nsplit = [1, 1]\noptional = true\n"),
              IsEmpty());
  const std::string all = "[devices]\naxes = ['tp=2']\noptional = true\n[[rule]]\nmatch = 'x'\n";
  EXPECT_THAT(rules_of(all).unmatched(kParameters), IsEmpty());
  EXPECT_EQ(rules_of(all + "optional = false\n").unmatched(kParameters).size(), 1U);
}

TEST(UnmatchedRules, AreAnError) {
  const StrategyRules rules = rules_of(kHead + "[[rule]]\nmatch = 'norn'\n");
  test::expect_error(ErrorKind::kBadInput, {"line 4: the rule 'norn'", "optional = true"},
                     [&] { rules.require_matched(kParameters); });
  EXPECT_NO_THROW(rules_of(kHead + "[[rule]]\nmatch = 'norm'\n").require_matched(kParameters));
}

TEST(UnmatchedRules, WrittenRulesAreOptional) {
  const Strategy strategy = rules_of(kHead + "[[rule]]\nmatch = '*'\n").apply(kParameters);
  const StrategyRules written = rules_of(to_rules(strategy));
  EXPECT_THAT(written.unmatched({{"norm", {4}}}), IsEmpty());
}

}  // namespace
}  // namespace reshardfs::testing
