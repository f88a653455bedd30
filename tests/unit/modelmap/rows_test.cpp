// SPDX-License-Identifier: Apache-2.0
/// Tables of a map with a row for each rule, block or alias.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"

namespace reshardfs::modelmap::testing::rows_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kRows = R"(
[[block]]
columns = ["to", "from", "name"]
rows = [
  ["layers.{layer}.", "model.layers.{layer}."],
  ["experts.{layer}.", "model.layers.{layer}.experts.", "experts"],
]

[[map]]
part = "mlp"
columns = ["to", "from", "optional"]
rows = [
  ["@up", "@up_proj"],
  # A comment between rows.
  ["@experts:bias", "@experts:b", true],
]

[[alias]]
side = "to"
columns = ["name", "of"]
rows = [["head", "embedding"], ["tail", "embedding"]]
)";

TEST(Rows, AreRulesThatShareTheOtherKeys) {
  const ModelMap map = map_of(kRows);
  ASSERT_EQ(map.rules.size(), 2U);
  EXPECT_EQ(map.rules[0].to.text(), "layers.{layer}.up");
  EXPECT_EQ(map.rules[0].from[0].text(), "model.layers.{layer}.up_proj");
  EXPECT_EQ(map.rules[1].to.text(), "experts.{layer}.bias");
  EXPECT_EQ(map.rules[1].from[0].text(), "model.layers.{layer}.experts.b");
  EXPECT_FALSE(map.rules[0].optional);  // its row lacks the last column
  EXPECT_TRUE(map.rules[1].optional);
  for (const MapRule& rule : map.rules) EXPECT_EQ(rule.part, "mlp");
}

TEST(Rows, HaveLinesOfTheirOwn) {
  const ModelMap map = map_of(kRows);
  EXPECT_EQ(map.rules[0].place.line, 13);
  EXPECT_EQ(map.rules[1].place.line, 15);
  EXPECT_THAT(
      refusal_of([] { map_of("[[map]]\ncolumns = ['to', 'from']\nrows = [\n['a{', 'b'],\n]\n"); }),
      HasSubstr("line 4: "));
}

TEST(Rows, AreAliasesAndBlocksToo) {
  const ModelMap map = map_of(kRows);
  std::vector<std::string> names;
  for (const MapAlias& alias : map.aliases) names.push_back(alias.name.text());
  EXPECT_THAT(names, ElementsAre("head", "tail"));
}

TEST(Rows, AreReplacedOneByOne) {
  const ModelMap map = map_of(
      {{"map.toml", "extends = 'base.toml'\nwithout = ['b']\n[[map]]\nto = 'a'\nfrom = 'own'\n"},
       {"base.toml",
        "[[map]]\ncolumns = ['to', 'from']\nrows = [['a', 'x'], ['b', 'y'], ['c', 'z']]\n"}});
  ASSERT_EQ(map.rules.size(), 2U);
  EXPECT_EQ(map.rules[0].to.text(), "c");
  EXPECT_EQ(map.rules[1].from[0].text(), "own");
}

TEST(Rows, OfRenamesCanStateTypes) {
  const ModelMap map = map_of(
      "types = ['a', 'b']\n[rest]\nkeep = true\n[[rename]]\ntypes = ['a']\n"
      "pairs = [['x', 'y'], ['v', 'w', ['b', 'c']]]\n");
  EXPECT_THAT(map.rules[0].types, ElementsAre(ElementsAre("a")));
  EXPECT_THAT(map.rules[1].types, ElementsAre(ElementsAre("b", "c")));
}

TEST(Rows, SayWhatIsWrongInThem) {
  const auto refused = [](const std::string& text) {
    return refusal_of([&] { map_of("[[map]]\n" + text); });
  };
  EXPECT_THAT(refused("columns = ['to', 'form']\nrows = []\n"),
              HasSubstr("line 2: 'form' of 'columns' is not a key that [[map]] can have"));
  EXPECT_THAT(refused("to = 'a'\ncolumns = ['to', 'from']\nrows = []\n"),
              HasSubstr("line 3: 'to' of 'columns' is a key of [[map]], too"));
  EXPECT_THAT(refused("columns = ['to', 'to']\nrows = []\n"), HasSubstr("is there twice"));
  EXPECT_THAT(refused("columns = ['to', 'from']\nrows = [['a', 'b'], ['a', 'b', 'c']]\n"),
              HasSubstr("line 3: the row has 3 values, but there are 2 columns"));
  EXPECT_THAT(refused("columns = ['to', 'from']\nrows = [['a']]\n"),
              HasSubstr("line 3: [[map]] has no 'from', which it needs"));
  EXPECT_THAT(refused("columns = ['to', 'from']\nrows = ['a']\n"), HasSubstr("'rows' has a text"));
  EXPECT_THAT(refused("columns = ['to', 'from']\n"), HasSubstr("has no 'rows'"));
  EXPECT_THAT(refused("rows = [['a', 'b']]\n"), HasSubstr("has no 'columns'"));
}

}  // namespace
}  // namespace reshardfs::modelmap::testing::rows_tests
