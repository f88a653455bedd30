// SPDX-License-Identifier: Apache-2.0
/// Everything that rules can say wrong, with the line that says it.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kDevices = "[devices]\naxes = ['dp=2', 'tp=4']\nstages = 2\n";

/// Of a rule that starts in line 3; its keys follow from line 5 on.
std::string rule_refusal(const std::string& keys) {
  return rules_refusal(with_rule("match = 'w'\n" + keys));
}

/// Of a [[layers]] that starts in line 4; its keys follow from line 5 on.
std::string layers_refusal(const std::string& keys) {
  return rules_refusal(kDevices + "[[layers]]\n" + keys);
}

// The parser makes a table for each part, and destroys them one inside the other.
TEST(RulesRefusal, OfKeysOfVeryManyParts) {
  std::string key = "a";
  for (int i = 0; i < 250'000; ++i) key += ".a";
  EXPECT_THAT(rules_refusal("[devices]\n" + key + " = 1"), HasSubstr("line 2: a key of more than"));
}

TEST(RulesRefusal, NamesTheFile) {
  const TemporaryDirectory directory;
  const auto path = directory.write("mine.toml", "[devices]\nnoise\n");
  try {
    StrategyRules::load(path);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadInput);
    EXPECT_THAT(error.what(), StartsWith(path.string() + ": line "));
  }
  const auto missing = directory.path() / "none.toml";
  EXPECT_THAT(refusal_of([&] { StrategyRules::load(missing); }, ErrorKind::kMissing),
              ::testing::Not("accepted"));
}

TEST(RulesRefusal, ATextThatIsNoToml) {
  EXPECT_THAT(rules_refusal("[devices]\naxes = ['tp=2'\n[[rule]]"), StartsWith("line "));
  EXPECT_THAT(rules_refusal("[devices]\naxes = ['tp=2']\naxes = ['tp=2']\n"),
              StartsWith("line 3: "));
  EXPECT_THAT(rules_refusal("[devices]\naxes = ['\xff']\n"), StartsWith("line 2: "));
  EXPECT_THAT(rules_refusal(std::string(2 << 20, '\n')), ::testing::Not("accepted"));
}

TEST(RulesRefusal, UnknownTablesAndKeys) {
  EXPECT_EQ(rules_refusal(kDevices + "[[rules]]\nmatch = 'w'\n"),
            "line 4: 'rules' is not a key of the file, which has devices, rule, layers");
  EXPECT_EQ(
      rules_refusal("[devices]\naxes = ['tp=2']\nstage = 2\n"),
      "line 3: 'stage' is not a key of [devices], which has axes, stages, optimizer, unmatched, "
      "optional");
  EXPECT_EQ(
      rule_refusal("opt = 2"),
      "line 5: 'opt' is not a key of [[rule]], which has match, cut, uneven, field, optimizer, "
      "stage, undecided, optional");
  EXPECT_EQ(
      layers_refusal("match = 'a.{n}'\nsplits = [1, 1]\n"),
      "line 6: 'splits' is not a key of [[layers]], which has match, split, stages, optional");
}

TEST(RulesRefusal, WrongKindsOfTables) {
  EXPECT_EQ(rules_refusal(""), "line 1: the table [devices], which names the axes, is missing");
  EXPECT_EQ(rules_refusal("\ndevices = 3"),
            "line 2: 'devices' has a number, expected a table [devices]");
  EXPECT_EQ(rules_refusal(kDevices + "[rule]\nmatch = 'w'\n"),
            "line 4: 'rule' has a table, expected tables [[rule]]");
  EXPECT_EQ(rules_refusal("layers = [3]\n" + kDevices),
            "line 1: 'layers' has a number, expected tables [[layers]]");
}

TEST(RulesRefusal, Axes) {
  const std::string form = "expected a list of \"name=size\", such as [\"dp=2\", \"tp=4\"]";
  const auto refusal = [](const std::string& axes) {
    return rules_refusal("[devices]\naxes = " + axes + "\n");
  };
  EXPECT_EQ(rules_refusal("[devices]\nstages = 1\n"),
            "line 1: [devices] has no 'axes', which it needs");
  EXPECT_EQ(refusal("{tp = 2}"), "line 2: 'axes' has a table, " + form);
  EXPECT_EQ(refusal("'tp=2'"), "line 2: 'axes' has a text, " + form);
  EXPECT_EQ(refusal("[]"), "line 2: 'axes' is empty, " + form);
  EXPECT_EQ(refusal("['dp=2',\n2]"), "line 3: 'axes' has a number, " + form);
  for (const std::string axis : {"tp", "tp=", "=2", "tp=0", "tp=-2", "tp=2x", "tp=2.5",
                                 "tp=99999999999999999999", "t.p=2", "tp==2"}) {
    EXPECT_EQ(refusal("['" + axis + "']"), "line 2: 'axes' has '" + axis + "', " + form);
  }
  EXPECT_EQ(refusal("['tp=2', 'dp=2', 'tp=4']"), "line 2: axis 'tp' appears twice");
  EXPECT_EQ(refusal("['tp=2048', 'dp=2048']"),
            "line 2: the device matrix has more than 1048576 devices");
}

TEST(RulesRefusal, Devices) {
  const auto refusal = [](const std::string& key) {
    return rules_refusal("[devices]\naxes = ['tp=2']\n" + key + "\n");
  };
  EXPECT_EQ(refusal("stages = 0"), "line 3: 'stages' is 0, expected a whole number from 1 to 4096");
  EXPECT_EQ(
      refusal("stages = 1.5"),
      "line 3: 'stages' has a number with a fraction, expected a whole number from 1 to 4096");
  EXPECT_EQ(refusal("stages = true"),
            "line 3: 'stages' has true or false, expected a whole number from 1 to 4096");
  EXPECT_EQ(refusal("unmatched = 'drop'"),
            "line 3: 'unmatched' is 'drop', expected \"unknown\", \"replicate\" or \"error\"");
  EXPECT_EQ(
      refusal("unmatched = true"),
      "line 3: 'unmatched' has true or false, expected \"unknown\", \"replicate\" or \"error\"");
  EXPECT_EQ(refusal("optimizer = 'some'"),
            "line 3: 'optimizer' is 'some', expected \"all\", \"none\", true, false or a number of "
            "parts");
}

TEST(RulesRefusal, Match) {
  EXPECT_EQ(rules_refusal(with_rule("cut = ['tp']")),
            "line 3: [[rule]] has no 'match', which it needs");
  EXPECT_EQ(rules_refusal(with_rule("match = 3")),
            "line 4: 'match' has a number, expected a text or a list of texts");
  EXPECT_EQ(rules_refusal(with_rule("match = ['a',\n1979-05-27]")),
            "line 5: 'match' has a date or a time, expected a text or a list of texts");
  for (const std::string empty : {"''", "[]", "['a', '']"}) {
    EXPECT_EQ(rules_refusal(with_rule("match = " + empty)), "line 4: 'match' is empty");
  }
}

TEST(RulesRefusal, Cut) {
  const std::string form =
      "expected a list with an axis, a list of axes or \"\" for each dimension, such as [\"tp\", "
      "\"\"]";
  EXPECT_EQ(rule_refusal("cut = 'tp'"), "line 5: 'cut' has a text, " + form);
  EXPECT_EQ(rule_refusal("cut = [0]"), "line 5: 'cut' has a number, " + form);
  EXPECT_EQ(rule_refusal("cut = [[['tp']]]"), "line 5: 'cut' has a list, " + form);
  EXPECT_EQ(rule_refusal("cut = ['',\n'mp']"),
            "line 6: 'mp' is not an axis of [devices], which has 'dp', 'tp'");
  EXPECT_EQ(rule_refusal("cut = [['']]"),
            "line 5: '' is not an axis of [devices], which has 'dp', 'tp'");
  EXPECT_EQ(rule_refusal("cut = ['tp', 'tp']"), "line 5: axis 'tp' is used twice in one rule");
  EXPECT_EQ(rule_refusal("cut = [['dp', 'tp', 'dp']]"),
            "line 5: axis 'dp' is used twice in one rule");
}

TEST(RulesRefusal, Uneven) {
  const std::string form =
      "expected \"balanced\", or a list with \"balanced\", a list of lengths or \"\" for each "
      "dimension";
  EXPECT_EQ(rule_refusal("cut = ['tp']\nuneven = true"),
            "line 6: 'uneven' has true or false, " + form);
  EXPECT_EQ(rule_refusal("cut = ['tp']\nuneven = 'even'"), "line 6: 'uneven' has 'even', " + form);
  EXPECT_EQ(rule_refusal("cut = ['tp']\nuneven = [5, 3]"),
            "line 6: 'uneven' has 2 entries, but 'cut' has 1");
  EXPECT_EQ(rule_refusal("cut = ['tp']\nuneven = [5]"), "line 6: 'uneven' has a number, " + form);
  EXPECT_EQ(rule_refusal("cut = ['tp', '']\nuneven = ['', 'balanced']"),
            "line 6: 'uneven' describes how to cut dimension 1, which 'cut' leaves whole");
  EXPECT_EQ(rule_refusal("uneven = 'balanced'"),
            "line 5: 'uneven' is given, but the rule cuts no dimension");
  EXPECT_EQ(rule_refusal("cut = ['tp']\nuneven = [[5, 3]]"),
            "line 6: 'uneven' has 2 lengths for dimension 0, which is cut into 4 parts");
  EXPECT_EQ(rule_refusal("cut = ['dp']\nuneven = [[5, 0]]"),
            "line 6: 'uneven' is 0, expected a whole number from 1 to 9223372036854775807");
}

TEST(RulesRefusal, Field) {
  EXPECT_EQ(rule_refusal("cut = ['tp']\nfield = 0"),
            "line 6: 'field' is 0, expected a whole number from 1 to 1048576");
  EXPECT_EQ(rule_refusal("field = 3"),
            "line 5: 'field' is given, but the rule does not cut dimension 0");
  EXPECT_EQ(rule_refusal("cut = ['', 'tp']\nfield = 3"),
            "line 6: 'field' is given, but the rule does not cut dimension 0");
  EXPECT_EQ(rule_refusal("cut = ['tp']\nuneven = 'balanced'\nfield = 3"),
            "line 7: dimension 0 cannot be cut both by 'field' and by 'uneven'");
}

TEST(RulesRefusal, Optimizer) {
  EXPECT_EQ(rule_refusal("optimizer = -1"),
            "line 5: 'optimizer' is -1, expected a whole number from 0 to 1048576");
  EXPECT_EQ(rule_refusal("cut = ['tp']\noptimizer = 4"),
            "line 6: 'optimizer' asks for 4 parts, but a slice of this rule is held by 2 devices, "
            "which cannot be shared out equally");
  EXPECT_EQ(rules_refusal("[devices]\naxes = ['tp=4']\noptimizer = 2\n[[rule]]\nmatch = 'w'\n"
                          "cut = ['tp']\n"),
            "line 4: 'optimizer' asks for 2 parts (set in [devices]), but a slice of this rule is "
            "held by 1 device, which cannot be shared out equally");
}

TEST(RulesRefusal, Stage) {
  const auto refusal = [](const std::string& stage) {
    return rules_refusal(kDevices + "[[rule]]\nmatch = 'w'\nstage = " + stage + "\n");
  };
  EXPECT_EQ(refusal("2"), "line 6: 'stage' is 2, expected a whole number from 0 to 1");
  EXPECT_EQ(refusal("[0,\n-1]"), "line 7: 'stage' is -1, expected a whole number from 0 to 1");
  EXPECT_EQ(refusal("'last'"), "line 6: 'stage' has a text, expected a whole number from 0 to 1");
  EXPECT_EQ(refusal("[]"), "line 6: 'stage' lists no stages");
  EXPECT_EQ(refusal("[1, 1]"), "line 6: stage 1 is listed twice");
}

TEST(RulesRefusal, Layers) {
  EXPECT_EQ(layers_refusal("split = [1, 1]\n"),
            "line 4: [[layers]] has no 'match', which it needs");
  for (const std::string match : {"layers.", "{n}.", "a.{n}.{n}.", ""}) {
    EXPECT_EQ(layers_refusal("match = '" + match + "'\nsplit = [1, 1]\n"),
              "line 5: 'match' of [[layers]] is '" + match +
                  "', expected a text with {n} in it once and not at its start, such as "
                  "\"model.layers.{n}.\"");
  }
  EXPECT_EQ(layers_refusal("match = 'a.{n}'\n"),
            "line 4: [[layers]] needs either 'split' or 'stages'");
  EXPECT_EQ(layers_refusal("match = 'a.{n}'\nsplit = [1, 1]\nstages = [[0], [1]]\n"),
            "line 4: [[layers]] needs either 'split' or 'stages'");
  EXPECT_EQ(layers_refusal("match = 'a.{n}'\nsplit = 16\n"),
            "line 6: 'split' has a number, expected a list with the number of layers of each "
            "stage, such as [16, 16]");
  EXPECT_EQ(layers_refusal("match = 'a.{n}'\nsplit = [16]\n"),
            "line 6: 'split' has 1 entry, but [devices] has 2 stages");
  EXPECT_EQ(layers_refusal("match = 'a.{n}'\nsplit = [1, -1]\n"),
            "line 6: 'split' is -1, expected a whole number from 0 to 65535");
  EXPECT_EQ(layers_refusal("match = 'a.{n}'\nsplit = [65536, 1]\n"),
            "line 6: 'split' is 1, expected a whole number from 0 to 0");
  EXPECT_EQ(layers_refusal("match = 'a.{n}'\nstages = [[0], [1], [2]]\n"),
            "line 6: 'stages' has 3 entries, but [devices] has 2 stages");
  EXPECT_EQ(layers_refusal("match = 'a.{n}'\nstages = [0, 1]\n"),
            "line 6: 'stages' has a number, expected a list with the layers of each stage, such as "
            "[[0, 2], [1, 3]]");
  EXPECT_EQ(layers_refusal("match = 'a.{n}'\nstages = [[0],\n[1, 0]]\n"),
            "line 7: layer 0 is listed twice");
}

TEST(RulesRefusal, AParameterOfOtherDimensions) {
  EXPECT_EQ(apply_refusal(with_rule("match = ['v', '*w']\ncut = ['tp', '']"), {"norm.w", {4096}}),
            "parameter 'norm.w': line 3: the rule '*w' is for 2 dimensions, but the shape is "
            "[4096]; put a rule for such parameters before it");
}

TEST(RulesRefusal, ALayerInNoStage) {
  const std::string split = kDevices + "[[layers]]\nmatch = 'a.{n}'\nsplit = [1, 1]\n";
  EXPECT_EQ(apply_refusal(split, {"a.2.w", {4}}),
            "parameter 'a.2.w': line 4: [[layers]] puts layer 2 in no stage; add the layer to a "
            "stage there, or write a rule with 'stage' for the parameter");
  EXPECT_THAT(apply_refusal(split, {"a.99999999999999999999.w", {4}}), HasSubstr("in no stage"));
  EXPECT_THAT(apply_refusal(kDevices + "[[layers]]\nmatch = 'a.{n}'\nstages = [[0], [2]]\n",
                            {"a.1.w", {4}}),
              HasSubstr("puts layer 1 in no stage"));
}

TEST(RulesRefusal, UnmatchedParameters) {
  const StrategyRules rules = rules_of("[devices]\naxes = ['tp=2']\nunmatched = 'error'\n");
  EXPECT_EQ(refusal_of([&] {
              rules.apply({{"a", {}}, {"b", {}}, {"c", {}}, {"d", {}}, {"e", {}}, {"f", {}}});
            }),
            "no rule takes 'a', 'b', 'c', 'd', 'e' and 1 more; add rules, or set unmatched = "
            "\"replicate\" in [devices]");
}

TEST(RulesRefusal, NoParameters) {
  const StrategyRules rules = rules_of("[devices]\naxes = ['tp=2']\n");
  EXPECT_EQ(refusal_of([&] { rules.apply({}); }), "there are no parameters to apply the rules to");
}

TEST(RulesRefusal, OfUndecidedRulesThatSayMore) {
  EXPECT_THAT(rule_refusal("undecided = true\ncut = ['tp']\n"),
              HasSubstr("line 6: 'cut' cannot go with 'undecided'"));
  EXPECT_THAT(rule_refusal("undecided = true\nstage = 0\n"),
              HasSubstr("line 6: 'stage' cannot go with 'undecided'"));
  EXPECT_THAT(rule_refusal("undecided = 'yes'\n"),
              HasSubstr("line 5: 'undecided' has a text, expected true or false"));
}

}  // namespace
}  // namespace reshardfs::testing
