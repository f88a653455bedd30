// SPDX-License-Identifier: Apache-2.0
/// Maps that keep the names of what no rule takes, and rules for some types of models.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"

namespace reshardfs::modelmap::testing::rest_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

const std::string kMap = R"(
types = ["a", "b"]
[rest]
keep = true
except = ["*.experts.*"]
[[rename]]
types = ["b"]
pairs = [["in.memory.{n:*}", "on.hub.{n:*}"]]
[[map]]
to = "{p:*}.experts.joined"
from = "{p:*}.experts.{e}.w"
range = { e = "2" }
shape = "[F]"
ops = ["stack 0 {e}"]
to_shape = "[2, F]"
optional = true
)";

MapOptions options_for(const std::string& type, Direction direction) {
  MapOptions options;
  options.direction = direction;
  options.config = ModelConfig::parse(R"({"model_type": ")" + type + R"("})");
  return options;
}

std::vector<std::string> shown(const std::string& type, Direction direction,
                               const std::vector<SourceTensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& target :
       map_tensors(map_of(kMap), tensors, options_for(type, direction)).targets) {
    names.push_back(target.name + (target.is_kept ? " kept" : ""));
  }
  return names;
}

std::string refused(const std::string& type, Direction direction,
                    const std::vector<SourceTensor>& tensors) {
  return refusal_of([&] { shown(type, direction, tensors); });
}

SourceTensor tensor(const std::string& name, const Shape& shape = {3}) {
  return {name, DType::kFloat32, shape};
}

TEST(Rest, KeepsTheNamesThatNoRuleTakes) {
  const std::vector<SourceTensor> hub = {tensor("m.experts.0.w"), tensor("m.experts.1.w"),
                                         tensor("m.norm"), tensor("adam_m.m.norm")};
  EXPECT_THAT(shown("a", Direction::kForward, hub),
              UnorderedElementsAre("m.experts.joined", "m.norm kept", "adam_m.m.norm kept"));
  EXPECT_THAT(
      shown("a", Direction::kInverse, {tensor("m.experts.joined", {2, 3}), tensor("m.norm")}),
      UnorderedElementsAre("m.experts.0.w", "m.experts.1.w", "m.norm kept"));
}

TEST(Rest, RefusesNamesOfTheOtherSideAndThoseThatItExcepts) {
  EXPECT_THAT(refused("a", Direction::kForward,
                      {tensor("m.experts.0.w"), tensor("m.experts.1.w"),
                       tensor("n.experts.joined", {2, 3})}),
              HasSubstr("n.experts.joined: no rule uses it"));
  EXPECT_THAT(
      refused("a", Direction::kForward,
              {tensor("m.experts.0.w"), tensor("m.experts.1.w"), tensor("m.experts.0.scale")}),
      HasSubstr("m.experts.0.scale: no rule uses it"));
  EXPECT_THAT(refused("a", Direction::kForward,
                      {tensor("m.experts.0.w"), tensor("m.experts.1.w"), tensor("m.experts.2.w")}),
              HasSubstr("m.experts.2.w: no rule uses it"));
}

TEST(Rest, FollowsTheFirstRuleThatTakesAName) {
  const std::vector<SourceTensor> hub = {tensor("on.hub.experts.0.w"), tensor("on.hub.experts.1.w"),
                                         tensor("on.hub.norm")};
  // The rule that renames stands first.
  EXPECT_THAT(
      shown("b", Direction::kForward, hub),
      UnorderedElementsAre("in.memory.experts.0.w", "in.memory.experts.1.w", "in.memory.norm"));
}

TEST(Rest, HasRulesForTypesOfModelsAlone) {
  const std::vector<SourceTensor> hub = {tensor("on.hub.experts.0.w"), tensor("on.hub.experts.1.w"),
                                         tensor("on.hub.norm")};
  EXPECT_THAT(shown("a", Direction::kForward, hub),
              UnorderedElementsAre("on.hub.experts.joined", "on.hub.norm kept"));
  EXPECT_EQ(
      find_direction(map_of(kMap), {tensor("on.hub.norm")}, options_for("b", Direction::kForward)),
      Direction::kForward);
  EXPECT_THAT(refusal_of([] {
                static_cast<void>(find_direction(map_of(kMap), {tensor("on.hub.norm")},
                                                 options_for("a", Direction::kForward)));
              }),
              HasSubstr("no rule of the map takes a tensor"));
}

TEST(Rest, SaysWhatIsWrongInTheFile) {
  EXPECT_THAT(refusal_of([] { map_of("[rest]\nkeep = false\n"); }), HasSubstr("line 1"));
  EXPECT_THAT(refusal_of([] { map_of("[[rename]]\npairs = [['a']]\n"); }),
              HasSubstr("line 2: 'pairs' has a list that is not [to, from]"));
}

TEST(Rest, OfAMapThatExtendsAnotherIsInherited) {
  const ModelMap map =
      map_of({{"map.toml", "extends = 'base.toml'\n[rest]\nkeep = true\nexcept = ['b.*']\n"},
              {"base.toml", kMap}});
  ASSERT_TRUE(map.rest.has_value());
  EXPECT_THAT(map.rest_except, ElementsAre("b.*", "*.experts.*"));
}

TEST(OtherNames, OfAMapCanBeExtended) {
  const std::string base = R"(
[names]
base-more = "size=more"
[settings.size]
words = { "size=less" = 0, "size=more" = 1 }
otherwise = 0
)";
  const auto otherwise = [&](const std::string& extends) {
    const ModelMap map = map_of({{"map.toml", "extends = '" + extends + "'"}, {"base.toml", base}});
    return map.settings.at("size").otherwise->text();
  };
  EXPECT_EQ(otherwise("base.toml"), "0");
  EXPECT_EQ(otherwise("base-more.toml"), "1");
  for (const char* missing : {"base-less.toml", "other.toml", "bas-e.toml"}) {
    EXPECT_THAT(refusal_of([&] { otherwise(missing); }), HasSubstr(missing));
  }
}

}  // namespace
}  // namespace reshardfs::modelmap::testing::rest_tests
