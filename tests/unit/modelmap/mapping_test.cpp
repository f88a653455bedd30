// SPDX-License-Identifier: Apache-2.0
/// What maps make of tensors, and everything that is refused.
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"

namespace reshardfs::modelmap::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

SourceTensor tensor(const std::string& name, const Shape& shape, DType dtype = DType::kFloat32) {
  return {name, dtype, shape};
}

std::string rule(const std::string& to, const std::string& from, const std::string& more = "") {
  return "[[map]]\nto = \"" + to + "\"\nfrom = " + (from[0] == '[' ? from : "\"" + from + "\"") +
         "\n" + more + "\n";
}

using Parts = Known<std::int64_t>;
constexpr Direction kForward = Direction::kForward;
constexpr Direction kInverse = Direction::kInverse;

std::vector<std::string> mapped(const std::string& map, Direction direction,
                                const std::vector<SourceTensor>& tensors) {
  return targets_of(map_tensors(map_of(map), tensors, options(direction)));
}

std::vector<std::string> problems(const std::string& map, Direction direction,
                                  const std::vector<SourceTensor>& tensors) {
  std::vector<std::string> messages;
  for (const auto& problem : check_mapping(map_of(map), tensors, options(direction)).problems) {
    messages.push_back(problem.error().what());
  }
  return messages;
}

TEST(Mapping, OrdersTargetsByTheFirstSourceThatTheyRead) {
  const std::string map =
      rule("joined", "['b', 'd']", "ops = ['concat 0']") + rule("A", "a") +
      rule("C.{i}", "c", "range = {i = 11}\nops = ['take 0 i']\nshape = '[11]'") +
      rule("e.{p:x|y}", "E.{p:x|y}");
  const Mapping mapping = map_tensors(map_of(map),
                                      {tensor("E.y", {1}), tensor("d", {2}), tensor("c", {11}),
                                       tensor("a", {3}), tensor("b", {4}), tensor("E.x", {1})},
                                      options(kForward));
  std::vector<std::string> names;
  for (const auto& target : mapping.targets) names.push_back(target.name);
  EXPECT_THAT(names, ElementsAre("e.y", "joined", "C.0", "C.1", "C.2", "C.3", "C.4", "C.5", "C.6",
                                 "C.7", "C.8", "C.9", "C.10", "A", "e.x"));
}

TEST(Mapping, TakesTheRuleWhoseConditionHolds) {
  const std::string map =
      rule("x.{i}", "a.{i}", "when = 'i < 2'") + rule("y.{i}", "a.{i}", "when = 'i >= 2'") +
      rule("z", "zz", "when = 'n == 3'") + rule("w", "zz", "when = 'n != 3'") + "[vars]\nn = 3\n";
  EXPECT_THAT(mapped(map, kForward, {tensor("a.1", {1}), tensor("a.2", {2}), tensor("zz", {3})}),
              ElementsAre("x.1 [1]", "y.2 [2]", "z [3]"));
  EXPECT_THAT(mapped(map, kInverse, {tensor("x.1", {1}), tensor("y.2", {2}), tensor("z", {3})}),
              ElementsAre("a.1 [1]", "a.2 [2]", "zz [3]"));
  EXPECT_THAT(
      problems(map, kInverse,
               {tensor("x.3", {1}), tensor("x.1", {1}), tensor("y.2", {2}), tensor("z", {3})}),
      ElementsAre(HasSubstr("x.3: no rule uses it")));
}

TEST(Mapping, BindsNamesByShapes) {
  const std::string map =
      rule("c", "['a', 'b']",
           "shape = ['[2*F, H]', '[F, H]']\nops = ['concat 0']\nto_shape = '[3*F, H]'");
  EXPECT_THAT(mapped(map, kForward, {tensor("a", {4, 5}), tensor("b", {2, 5})}),
              ElementsAre("c [6, 5]"));
  EXPECT_THAT(mapped(map, kInverse, {tensor("c", {6, 5})}), ElementsAre("a [4, 5]", "b [2, 5]"));
  EXPECT_THAT(problems(map, kForward, {tensor("a", {4, 5}), tensor("b", {3, 5})}),
              ElementsAre(HasSubstr("b: 'F' is 2, the tensor has 3")));
  EXPECT_THAT(problems(map, kForward, {tensor("a", {5, 5}), tensor("b", {3, 5})}),
              ElementsAre(AllOf(StartsWith("map.toml: line 1: a: '2*F'"), HasSubstr("has 5"))));
  EXPECT_THAT(problems(map, kForward, {tensor("a", {4}), tensor("b", {3, 5})}),
              ElementsAre(AllOf(HasSubstr("a: "), HasSubstr("[2*F, H]"), HasSubstr("[4]"))));
  EXPECT_THAT(problems(map, kInverse, {tensor("c", {7, 5})}),
              ElementsAre(AllOf(HasSubstr("c: '3*F'"), HasSubstr("has 7"))));
  // The name may be bound behind the dimension that needs it.
  EXPECT_THAT(mapped(rule("c", "a", "shape = '[F*G, F]'\nops = ['reshape [F, G, F]']"), kForward,
                     {tensor("a", {6, 2})}),
              ElementsAre("c [2, 3, 2]"));
}

TEST(Mapping, NeedsValuesForAllNames) {
  EXPECT_THAT(problems(rule("c", "a", "shape = '[heads*F]'\nops = ['reshape [heads, F]']"),
                       kForward, {tensor("a", {4})}),
              ElementsAre(HasSubstr("unknown variable 'heads'")));
  EXPECT_THAT(problems(rule("c", "a", "shape = '[H]'\nops = ['reshape [-1]']"), kInverse,
                       {tensor("c", {4})}),
              ElementsAre(HasSubstr("unknown variable 'H'")));
  EXPECT_THAT(problems(rule("c", "a", "when = 'nothing'"), kForward, {tensor("a", {4})}),
              ElementsAre(AllOf(HasSubstr("line 1"), HasSubstr("unknown variable 'nothing'"))));
  EXPECT_THAT(problems(rule("c.{i}", "a.{i+layers}"), kForward, {tensor("a.4", {4})}),
              ElementsAre(HasSubstr("unknown variable 'layers'")));
  EXPECT_THAT(
      problems(rule("c.{p:x|y}", "a.{p:x|y}", "shape = '[p]'"), kForward, {tensor("a.x", {4})}),
      ElementsAre(HasSubstr("'p' is a word")));
}

TEST(Mapping, RefusesWhatIsLeftOverOrMissing) {
  const std::string map = rule("c.{i}", "['a.{i}', 'b.{i}']", "ops = ['stack 0']") + rule("d", "d");
  EXPECT_THAT(problems(map, kForward,
                       {tensor("a.0", {2}), tensor("b.0", {2}), tensor("d", {1}), tensor("e", {1}),
                        tensor("f", {1})}),
              ElementsAre(AllOf(HasSubstr("e: no rule uses it"), HasSubstr("2 such")),
                          HasSubstr("f: no rule uses it")));
  EXPECT_THAT(problems(map, kForward, {tensor("a.0", {2}), tensor("d", {1})}),
              ElementsAre(HasSubstr("b.0: missing in the source (c.0 needs it)")));
  EXPECT_THAT(problems(map, kForward, {tensor("a.0", {2}), tensor("b.0", {2})}),
              ElementsAre(AllOf(StartsWith("map.toml: line 5: "),
                                HasSubstr("d: no tensor of the source is for this rule"))));
  EXPECT_THAT(problems(map, kForward, {tensor("a.0", {2}), tensor("b.0", {3}), tensor("d", {1})}),
              ElementsAre(AllOf(HasSubstr("c.0"), HasSubstr("[2], [3]"),
                                HasSubstr("do not fit together"))));
}

TEST(Mapping, ReadsEachElementOnce) {
  const std::string low = rule("low", "a", "shape = '[6]'\nops = ['slice 0 0:4']");
  const auto high = [](const std::string& range, const std::string& more = "") {
    return rule("high", "a", "shape = '[6]'\nops = ['slice 0 " + range + "']\n" + more);
  };
  const std::vector<SourceTensor> a = {tensor("a", {6})};
  EXPECT_THAT(problems(low + high("4:6"), kForward, a), IsEmpty());
  EXPECT_THAT(problems(low + high("5:6"), kForward, a),
              ElementsAre(HasSubstr("a: 1 elements are not used")));
  EXPECT_THAT(problems(low + high("3:6"), kForward, a),
              ElementsAre(AllOf(HasSubstr("high: takes elements that another rule takes"),
                                HasSubstr("'low'"))));
  EXPECT_THAT(problems(low + high("5:6", "rest = 'drop'"), kForward, a), IsEmpty());
  EXPECT_THAT(problems(low + high("5:6", "rest = 'drop'"), kInverse,
                       {tensor("low", {4}), tensor("high", {1})}),
              ElementsAre(HasSubstr("a: 1 elements would come from nowhere")));
  EXPECT_THAT(problems(low + high("4:6", "optional = true"), kInverse, {tensor("low", {4})}),
              ElementsAre(HasSubstr("a: 2 elements would come from nowhere")));
  EXPECT_THAT(problems(low + high("3:6"), kInverse, {tensor("low", {4}), tensor("high", {3})}),
              ElementsAre(HasSubstr("takes elements that another rule takes")));
  EXPECT_THAT(problems(rule("c", "['a', 'a']", "ops = ['concat 0']"), kForward, a),
              ElementsAre(HasSubstr("c: takes elements")));
}

TEST(Mapping, MayRepeatWithinOneRule) {
  const std::string map = rule("c", "a",
                               "shape = '[2, 3]'\nops = ['repeat 0 2', 'reshape [-1]', "
                               "'slice 0 2:12']\nto_shape = '[10]'");
  const ModelMap loaded = map_of(map);
  const Mapping back = map_tensors(loaded, {tensor("c", {10})}, options(kInverse));
  ASSERT_THAT(targets_of(back), ElementsAre("a [2, 3]"));
  // Of rows 0 0 1 1 the first two elements are cut off: their second copies are the first ones.
  EXPECT_THAT(test::places_of(*back.targets[0].form),
              ElementsAre(Pair(0, 1), Pair(0, 2), Pair(0, 0), Pair(0, 4), Pair(0, 5), Pair(0, 6)));
  EXPECT_THAT(problems(map, kForward, {tensor("a", {2, 3})}), IsEmpty());
}

TEST(Mapping, MakesEachTargetOnce) {
  EXPECT_THAT(problems(rule("c", "a") + rule("{p:c|d}", "b.{p:c|d}"), kForward,
                       {tensor("a", {1}), tensor("b.c", {1})}),
              ElementsAre(HasSubstr("c: two rules make it")));
  EXPECT_THAT(
      problems(rule("c.{i}", "a.{i}") + rule("c.{j}", "b.{j}"), kInverse, {tensor("c.0", {1})}),
      ::testing::Contains(HasSubstr("c.0: two rules make it")));
}

TEST(Mapping, KeepsTypesUnlessItCasts) {
  const std::string join = rule("c", "['a', 'b']", "ops = ['concat 0']");
  EXPECT_THAT(
      problems(join, kForward, {tensor("a", {1}), tensor("b", {1}, DType::kFloat16)}),
      ElementsAre(AllOf(HasSubstr("c: its sources have different types"), HasSubstr("Float16"))));
  const std::string cast = rule("c", "a", "ops = ['cast fp32->bf16']");
  const Mapping mapping =
      map_tensors(map_of(cast), {tensor("a", {1}), tensor("adam_m.a", {1})}, options(kForward));
  EXPECT_EQ(mapping.targets[0].dtype, DType::kBFloat16);
  EXPECT_EQ(mapping.targets[0].source_dtype, DType::kFloat32);
  EXPECT_EQ(mapping.targets[1].dtype, DType::kFloat32);  // a state
  EXPECT_THAT(problems(cast, kForward, {tensor("a", {1}, DType::kFloat16)}),
              ElementsAre(HasSubstr("c: cast from Float32, the source is Float16")));
  EXPECT_THAT(problems(cast, kInverse, {tensor("c", {1}, DType::kFloat16)}),
              ElementsAre(HasSubstr("a: cast from BFloat16, the source is Float16")));
  EXPECT_THAT(
      problems(rule("c", "a", "ops = ['pad 0 4 300']"), kForward, {tensor("a", {1}, DType::kInt8)}),
      ElementsAre(HasSubstr("c: not possible")));
}

TEST(Mapping, MapsStatesLikeTheirWeights) {
  const std::string map =
      "[states]\n'exp_avg.' = 'opt.m.'\n" +
      rule("c", "['a', 'b']", "shape = '[F]'\nops = ['concat 0']\nto_shape='[2*F]'") +
      rule("step", "global_step", "optional = true");
  EXPECT_THAT(mapped(map, kForward,
                     {tensor("a", {2}), tensor("b", {2}), tensor("exp_avg.a", {2}),
                      tensor("exp_avg.b", {2}), tensor("moments.a", {2}), tensor("moments.b", {2}),
                      tensor("global_step", {1})}),
              ElementsAre("c [4]", "opt.m.c [4]", "moments.c [4]", "step [1]"));
  EXPECT_THAT(mapped(map, kInverse, {tensor("opt.m.c", {4}), tensor("c", {4})}),
              ElementsAre("exp_avg.a [2]", "exp_avg.b [2]", "a [2]", "b [2]"));
  EXPECT_THAT(
      problems(map, kForward, {tensor("a", {2}), tensor("b", {2}), tensor("exp_avg.a", {2})}),
      ElementsAre(HasSubstr("exp_avg.b: missing in the source (opt.m.c needs it)")));
  EXPECT_THAT(
      problems(map, kForward, {tensor("a", {2}), tensor("b", {2}), tensor("adam_v.z", {2})}),
      ElementsAre(HasSubstr("adam_v.z: no rule uses it")));
}

TEST(Mapping, FillsInWeightsThatNoTensorHas) {
  const std::string map = "[states]\n'm.' = 'm.'\n" + rule("scale", "scale") +
                          rule("bias", "scale",
                               "shape = '[3]'\nops = ['slice 0 0:0', 'fill 0 4']\n"
                               "to_shape = '[4]'\noptional = true");
  EXPECT_THAT(mapped(map, kForward, {tensor("scale", {3}), tensor("m.scale", {3})}),
              ElementsAre("scale [3]", "bias [4]", "m.scale [3]"));
  const Mapping there = map_tensors(map_of(map), {tensor("scale", {3})}, options(kForward));
  EXPECT_FALSE(there.targets[0].is_filled);
  EXPECT_TRUE(there.targets[1].is_filled);
  EXPECT_THAT(there.targets[1].form->boxes,
              ElementsAre(::testing::Truly([](const FormTerm& box) { return box.is_literal(); })));
  // It has a type of its own, and may be missing.
  EXPECT_THAT(mapped(map, kInverse, {tensor("scale", {3}), tensor("bias", {4}, DType::kFloat16)}),
              ElementsAre("scale [3]"));
  EXPECT_THAT(mapped(map, kInverse, {tensor("scale", {3})}), ElementsAre("scale [3]"));
  EXPECT_THAT(problems(map, kInverse, {tensor("bias", {4})}),
              ::testing::Contains(HasSubstr("scale: 3 elements would come from nowhere")));
}

TEST(Mapping, FillsInPartsOfTensorsAndOfTheirStates) {
  const std::string map =
      rule("qkv", "q", "shape = '[F]'\nops = ['fill 0 2*F']\nto_shape = '[2*F]'");
  const Mapping there =
      map_tensors(map_of(map), {tensor("q", {3}), tensor("exp_avg.q", {3})}, options(kForward));
  ASSERT_EQ(there.targets.size(), 2U);
  for (const TargetTensor& target : there.targets) EXPECT_TRUE(target.is_filled) << target.name;
  EXPECT_THAT(mapped(map, kInverse, {tensor("qkv", {6}), tensor("exp_avg.qkv", {6})}),
              ElementsAre("q [3]", "exp_avg.q [3]"));
}

TEST(Mapping, KnowsTheLongestPrefixOfAState) {
  const std::string map = "[states]\n'moments.' = 'm.'\n'moments.deep.' = 'd.'\n" + rule("c", "a");
  EXPECT_THAT(mapped(map, kForward,
                     {tensor("a", {1}), tensor("moments.a", {1}), tensor("moments.deep.a", {1})}),
              ElementsAre("c [1]", "m.c [1]", "d.c [1]"));
}

TEST(Mapping, DropsWhatNoRuleTakes) {
  const std::string map =
      "[drop]\nfrom = ['*.x', 'a.y']\nto = ['*.z']\n" + rule("b.{p:y|w}", "a.{p:y|w}");
  const Mapping mapping =
      map_tensors(map_of(map), {tensor("q.x", {1}), tensor("a.y", {1}), tensor("adam_m.q.x", {1})},
                  options(kForward));
  EXPECT_THAT(targets_of(mapping), ElementsAre("b.y [1]"));
  EXPECT_THAT(mapping.dropped, ElementsAre(0U, 2U));
  EXPECT_THAT(mapped(map, kInverse, {tensor("b.w", {1}), tensor("q.z", {1})}),
              ElementsAre("a.w [1]"));
}

TEST(Mapping, ShowsAliasesOfTheTargetAndHidesThoseOfTheSource) {
  const std::string map =
      rule("E.{i}", "e.{i}") +
      "[[alias]]\nside = 'from'\nname = 'f.{i+1}'\nof = 'e.{i}'\nrange = {i = 2}\n"
      "when = 'i > 0 or all'\n[vars]\nall = 0\n"
      "[[alias]]\nside = 'to'\nname = 'F'\nof = 'E.0'\nemit = false\n";
  const Mapping there = map_tensors(
      map_of(map), {tensor("e.0", {1}), tensor("e.1", {2}), tensor("f.2", {2})}, options(kForward));
  EXPECT_THAT(targets_of(there), ElementsAre("E.0 [1]", "E.1 [2]"));
  ASSERT_EQ(there.aliases.size(), 1U);
  EXPECT_EQ(there.aliases[0].tensor, 2U);
  EXPECT_EQ(there.aliases[0].of, 1U);
  const Mapping back = map_tensors(
      map_of(map), {tensor("E.0", {1}), tensor("E.1", {2}), tensor("F", {1})}, options(kInverse));
  EXPECT_THAT(targets_of(back), ElementsAre("e.0 [1]", "e.1 [2]", "f.2 [2]"));
  EXPECT_TRUE(back.targets[2].is_alias);
  EXPECT_EQ(back.targets[2].form, back.targets[1].form);
  EXPECT_THAT(problems(map, kForward, {tensor("e.0", {1}), tensor("e.1", {2}), tensor("f.2", {3})}),
              ElementsAre(AllOf(HasSubstr("f.2: it is"), HasSubstr("[3]"), HasSubstr("[2]"))));
  EXPECT_THAT(problems(map, kInverse, {tensor("E.0", {1})}),
              ElementsAre(HasSubstr("e.1: missing (f.2 needs it)")));
  EXPECT_THAT(problems(map, kForward, {tensor("e.0", {1}), tensor("f.2", {2})}),
              ElementsAre(HasSubstr("e.1: missing in the source")));
}

TEST(Mapping, CollectsAndSpreads) {
  const std::string map = "[vars]\nn = 3\n" +
                          rule("all.{l}", "one.{l}.{e}",
                               "range = {e = 'n'}\nshape = '[W]'\nops = ['stack 1 {e}']\n"
                               "to_shape = '[W, n]'") +
                          rule("part.{k}", "whole",
                               "range = {k = 2}\nshape = '[4]'\nops = ['slice 0 {k}*2:k*2+2']\n"
                               "to_shape = '[2]'");
  const std::vector<SourceTensor> from = {tensor("one.5.0", {2}), tensor("one.5.1", {2}),
                                          tensor("one.5.2", {2}), tensor("whole", {4})};
  EXPECT_THAT(mapped(map, kForward, from), ElementsAre("all.5 [2, 3]", "part.0 [2]", "part.1 [2]"));
  EXPECT_THAT(mapped(map, kInverse,
                     {tensor("part.1", {2}), tensor("all.5", {2, 3}), tensor("part.0", {2})}),
              ElementsAre("whole [4]", "one.5.0 [2]", "one.5.1 [2]", "one.5.2 [2]"));
  auto more = from;
  more.push_back(tensor("one.5.3", {2}));
  EXPECT_THAT(problems(map, kForward, more), ElementsAre(HasSubstr("one.5.3: no rule uses it")));
  EXPECT_THAT(problems(map, kInverse,
                       {tensor("part.2", {2}), tensor("all.5", {2, 3}), tensor("part.1", {2}),
                        tensor("part.0", {2})}),
              ElementsAre(HasSubstr("part.2: no rule uses it")));
  const std::string far = rule("a", "b.{e}", "range = {e = 99999999999}\nops = ['stack 0 {e}']");
  EXPECT_THAT(problems(far, kForward, {tensor("b.0", {1})}),
              ElementsAre(HasSubstr("b.0: the range of 'e' is 99999999999")));
}

TEST(Mapping, AsksStrategiesForTheNumberOfParts) {
  const std::string map = rule("c.{i}", "a.{i}",
                               "shape = '[F]'\nops = ['reshape [tp, -1]', "
                               "'permute [1, 0]', 'reshape [-1]']\nto_shape='[F]'") +
                          rule("d", "b", "ops = ['reshape [from_tp, -1]']");
  MapOptions chosen = options(kForward);
  const std::vector<SourceTensor> tensors = {tensor("a.0", {8}), tensor("a.1", {8}),
                                             tensor("b", {6})};
  const auto boxes = [&] {
    std::vector<std::string> out;
    for (const auto& target : map_tensors(map_of(map), tensors, chosen).targets) {
      out.push_back(to_string(target.form->axes()) + " of " + to_string(target.shape()));
    }
    return out;
  };
  // Nobody has said: there is no default.
  EXPECT_THAT(
      refusal_of([&] { boxes(); }),
      AllOf(HasSubstr("c.0: "), HasSubstr("unknown variable 'tp'"), HasSubstr("--map-var tp=N")));
  chosen.to_parts = [](const std::string& name) {
    return Parts::stated(name == "c.1" ? 4 : 1, "a strategy");
  };
  EXPECT_THAT(refusal_of([&] { boxes(); }),
              AllOf(HasSubstr("d: "), HasSubstr("unknown variable 'from_tp'")));
  chosen.from_parts = [](const std::string&) { return Parts::stated(3, "a strategy"); };
  EXPECT_THAT(boxes(), ElementsAre("[8] of [8]", "[2, 4] of [8]", "[3, 2] of [3, 2]"));
  chosen.to_parts = [](const std::string&) { return Parts::unknown("it is cut twice"); };
  EXPECT_THAT(refusal_of([&] { boxes(); }),
              AllOf(HasSubstr("it is cut twice"), HasSubstr("--map-var tp=N")));
  chosen.variables["tp"] = 2;
  EXPECT_THAT(boxes(), ElementsAre("[4, 2] of [8]", "[4, 2] of [8]", "[3, 2] of [3, 2]"));
}

/// A set of optimizer states need not have the weights.
TEST(Mapping, AsksForThePartsOfAStateItself) {
  const std::string map = rule("c", "a",
                               "shape = '[F]'\nops = ['reshape [tp, -1]', "
                               "'permute [1, 0]', 'reshape [-1]']\nto_shape='[F]'");
  MapOptions chosen = options(kInverse);
  const auto axes = [&] {
    return to_string(
        map_tensors(map_of(map), {tensor("adam_m.c", {8})}, chosen).targets.at(0).form->axes());
  };
  chosen.to_parts = [](const std::string& name) {
    return name == "adam_m.c" ? Parts::stated(4, "a strategy") : Parts::unknown("not there");
  };
  EXPECT_EQ(axes(), "[4, 2]");
  chosen.to_parts = [](const std::string& name) {
    return name == "c" ? Parts::stated(2, "a strategy") : Parts::unknown("not there");
  };
  EXPECT_EQ(axes(), "[2, 4]");
  chosen.to_parts = [](const std::string&) { return Parts::unknown("not there"); };
  EXPECT_THAT(refusal_of([&] { axes(); }), AllOf(HasSubstr("adam_m.c"), HasSubstr("not there")));
}

TEST(Mapping, RefusesTensorsOfRulesThatNobodyKnowsToHold) {
  const std::string map =
      "[settings.turned]\nkeys='turn_it'\n"
      "readings = {0='as it is', 1='turned'}\n" +
      rule("t.{i}", "s.{i}", "when='not turned'") +
      rule("t.{i}", "s.{i}",
           "when='turned'\nshape='[A, B]'\nto_shape='[B, A]'\n"
           "ops=['permute [1, 0]']") +
      rule("v", "u");
  const std::vector<SourceTensor> from = {tensor("s.0", {2, 2}), tensor("s.1", {2, 2}),
                                          tensor("u", {1})};
  EXPECT_THAT(problems(map, kForward, from),
              ElementsAre(AllOf(HasSubstr("s.0 and 1 more tensor: unknown variable 'turned'"),
                                HasSubstr("0 means as it is"), HasSubstr("1 means turned"))));
  EXPECT_THAT(problems(map, kInverse, {tensor("t.0", {2, 2}), tensor("v", {1})}),
              ElementsAre(HasSubstr("t.0: unknown variable 'turned'")));
  // What needs no such rule is not refused.
  EXPECT_THAT(problems(map, kForward, {tensor("u", {1})}), IsEmpty());
  MapOptions chosen = options(kForward);
  chosen.training = TrainingConfig::parse("turn_it: true", "run.yaml", map_of(map).training_keys());
  EXPECT_THAT(targets_of(map_tensors(map_of(map), from, chosen)),
              ElementsAre("t.0 [2, 2]", "t.1 [2, 2]", "v [1]"));
}

TEST(Mapping, TakesASettingThatTheSourceShowsFromItAlone) {
  const std::string map =
      "[settings.deep]\nshown_by = 'to'\notherwise = 0\n"
      "[settings.other]\nshown_by = ['from', 'to']\notherwise = 'deep'\n" +
      rule("t", "s", "when='not deep'\nshape='[A, B]'\nto_shape='[A*B]'\nops=['reshape [A*B]']") +
      rule("t", "s", "when=['deep', '1 == 1']\nshape='[A, B]'\nto_shape='[A, B]'") +
      rule("u", "v", "when='not other'") + rule("w", "v", "when='other'");
  const auto shown = [&](Direction direction, const std::vector<SourceTensor>& from,
                         std::map<std::string, std::int64_t> variables = {}) {
    MapOptions chosen = options(direction);
    chosen.variables = std::move(variables);
    return targets_of(map_tensors(map_of(map), from, chosen));
  };
  const std::vector<SourceTensor> from = {tensor("s", {2, 3}), tensor("v", {1})};
  EXPECT_THAT(shown(kForward, from), ElementsAre("t [6]", "u [1]"));
  EXPECT_THAT(shown(kForward, from, {{"deep", 1}}), ElementsAre("t [2, 3]", "w [1]"));
  EXPECT_THAT(shown(kForward, from, {{"other", 1}}), ElementsAre("t [6]", "w [1]"));
  for (const std::int64_t stated : {0, 1}) {
    const std::map<std::string, std::int64_t> other = {{"deep", stated}, {"other", 1 - stated}};
    for (const char* name : {"u", "w"}) {
      // A flat tensor does not tell A and B.
      EXPECT_THAT(shown(kInverse, {tensor("t", {2, 3}), tensor(name, {1})}, other),
                  ElementsAre("s [2, 3]", "v [1]"));
    }
  }
}

TEST(Mapping, NotesOrdersThatOnlyBytesShow) {
  const std::string map = "[identity]\nto = ['*.order']\n" + rule("t", "s");
  const std::vector<SourceTensor> from = {tensor("t", {1}), tensor("a.order", {4}, DType::kInt32)};
  const Mapping mapping = map_tensors(map_of(map), from, options(kInverse));
  EXPECT_THAT(mapping.identities, ElementsAre(1U));
  EXPECT_THAT(mapping.dropped, ElementsAre(1U));
  EXPECT_THAT(problems(map, kForward, {tensor("s", {1}), tensor("a.order", {4})}),
              ElementsAre(HasSubstr("a.order: no rule uses it")));
}

/// Without any config.json.
TEST(Mapping, ProvesVariablesByShapesAndNames) {
  const std::string map =
      rule("norm", "q_norm", "shape='[head_dim]'\nto_shape='[head_dim]'") +
      rule("qkv", "['q', 'k']",
           "shape=['[heads*head_dim, H]', '[groups*head_dim, H]']\n"
           "ops=['concat 0']\nto_shape='[(heads+groups)*head_dim, H]'") +
      rule("out", "o", "shape='[H, heads*head_dim]'\nto_shape='[H, heads*head_dim]'") +
      rule("experts", "e.{i}",
           "range={i='experts'}\nshape='[F]'\nops=['stack 0 {i}']\n"
           "to_shape='[experts, F]'");
  const std::vector<SourceTensor> from = {tensor("q_norm", {4}), tensor("q", {16, 3}),
                                          tensor("k", {8, 3}),   tensor("o", {3, 16}),
                                          tensor("e.0", {5}),    tensor("e.1", {5})};
  MapOptions chosen;
  chosen.direction = kForward;
  chosen.explain = {"qkv", "experts"};
  const Mapping mapping = map_tensors(map_of(map), from, chosen);
  EXPECT_THAT(targets_of(mapping),
              ElementsAre("norm [4]", "qkv [24, 3]", "out [3, 16]", "experts [2, 5]"));
  std::map<std::string, std::string> origins;
  for (const auto& [target, values] : mapping.origins) {
    for (const VariableValue& value : values) {
      origins[value.name] = std::to_string(*value.value) + ": " + value.value.origin();
    }
  }
  EXPECT_EQ(origins["head_dim"], "4: the shape of 'q_norm'");
  EXPECT_EQ(origins["heads"], "4: the shape of 'q'");
  EXPECT_EQ(origins["groups"], "2: the shape of 'k'");
  EXPECT_EQ(origins["experts"], "2: the names up to 'e.1'");
  EXPECT_EQ(origins["F"], "5: the shape of 'e.0'");
  // The way back: the joined tensor has two unknown numbers, of which 'out' proves one.
  chosen.direction = kInverse;
  chosen.explain = {"k"};
  EXPECT_THAT(
      targets_of(map_tensors(map_of(map),
                             {tensor("norm", {4}), tensor("qkv", {24, 3}), tensor("out", {3, 16}),
                              tensor("experts", {2, 5})},
                             chosen)),
      ElementsAre("q_norm [4]", "q [16, 3]", "k [8, 3]", "o [3, 16]", "e.0 [5]", "e.1 [5]"));
}

TEST(Mapping, NamesBothSidesOfAContradiction) {
  const std::string map = rule("b", "a", "shape='[heads*head_dim]'\nto_shape='[heads*head_dim]'");
  MapOptions chosen = options(kForward, R"({"num_attention_heads": 3, "head_dim": 2})");
  EXPECT_THAT(refusal_of([&] { map_tensors(map_of(map), {tensor("a", {8})}, chosen); }),
              AllOf(HasSubstr("a: 'heads*head_dim' is 6, the tensor has 8"),
                    HasSubstr("heads is 3: config.json: num_attention_heads"),
                    HasSubstr("head_dim is 2: config.json: head_dim")));
  // Two tensors that prove different numbers prove none.
  const std::string twice = rule("b.{i}", "a.{i}",
                                 "shape='[2*vocab]'\nops=['slice 0 0:vocab']\n"
                                 "to_shape='[vocab]'\nrest='drop'") +
                            rule("c.{i}", "d.{i}", "ops=['slice 0 0:vocab']\nrest='drop'");
  chosen = MapOptions();
  chosen.direction = kForward;
  EXPECT_THAT(refusal_of([&] {
                map_tensors(map_of(twice),
                            {tensor("a.0", {8}), tensor("a.1", {6}), tensor("d.0", {4})}, chosen);
              }),
              AllOf(HasSubstr("unknown variable 'vocab'"), HasSubstr("'a.0'"), HasSubstr("'a.1'")));
}

/// Two readings of a name: the tensors tell which one it is.
TEST(Mapping, ProvesConditionsByNames) {
  const std::string map = "[settings.split]\n" + rule("one.weight", "x", "when='split'") +
                          rule("whole", "x", "when='not split'") +
                          rule("head", "lm", "when='not tied'\noptional=true") +
                          "[[alias]]\nside='from'\nname='lm'\nof='x'\nwhen='tied'\n";
  MapOptions chosen;
  chosen.direction = kInverse;
  EXPECT_THAT(
      targets_of(map_tensors(map_of(map), {tensor("whole", {2}), tensor("head", {2})}, chosen)),
      ElementsAre("x [2]", "lm [2]"));
  chosen.direction = kForward;
  chosen.variables["split"] = 0;
  // Read as itself, a copy is right too.
  EXPECT_THAT(targets_of(map_tensors(map_of(map), {tensor("x", {2}), tensor("lm", {2})}, chosen)),
              ElementsAre("whole [2]", "head [2]"));
  chosen.variables.clear();
  EXPECT_THAT(refusal_of([&] {
                map_tensors(map_of(map), {tensor("x", {2}), tensor("lm", {2})}, chosen);
              }),
              AllOf(HasSubstr("x: "), HasSubstr("unknown variable 'split'")));
}

TEST(Mapping, FindsItsDirection) {
  const ModelMap map =
      map_of("[states]\n'm.' = 'opt.'\n" + rule("both", "both") + rule("to.{i}", "from.{i}"));
  MapOptions unknown;
  const auto direction = [&](const std::vector<SourceTensor>& tensors) {
    return find_direction(map, tensors, unknown);
  };
  EXPECT_EQ(direction({tensor("both", {1}), tensor("from.1", {1})}), kForward);
  EXPECT_EQ(direction({tensor("both", {1}), tensor("to.1", {1}), tensor("else", {1})}), kInverse);
  EXPECT_EQ(direction({tensor("m.from.1", {1})}), kForward);
  EXPECT_THAT(refusal_of([&] { direction({tensor("both", {1})}); }), HasSubstr("--map-direction"));
  EXPECT_THAT(refusal_of([&] {
                direction({tensor("to.1", {1}), tensor("from.1", {1})});
              }),
              AllOf(HasSubstr("'from.1'"), HasSubstr("'to.1'"), HasSubstr("--map-direction")));
}

TEST(Mapping, RefusesVariablesThatNothingUses) {
  const ModelMap map = map_of("[vars]\nn = ['used', 2]\n" + rule("b", "a", "shape = '[n*k]'"));
  MapOptions chosen = options(kForward);
  for (const char* name : {"n", "used", "k"}) {
    chosen.variables = {{name, 2}};
    EXPECT_EQ(refusal_of([&] { check_mapping(map, {tensor("a", {4})}, chosen); }), "accepted")
        << name;
  }
  chosen.variables = {{"other", 2}};
  EXPECT_THAT(refusal_of([&] { check_mapping(map, {tensor("a", {4})}, chosen); }),
              HasSubstr("--map-var other: no rule uses it"));
}

TEST(Mapping, TurnsRoundWhatHasShapesAlone) {
  EXPECT_THAT(problems(rule("c", "a", "ops = ['permute [1, 0]']"), kInverse, {tensor("c", {2, 3})}),
              ElementsAre(HasSubstr("c: cannot be turned round: the rule has no 'shape'")));
  EXPECT_THAT(mapped(rule("c", "a"), kInverse, {tensor("c", {2, 3})}), ElementsAre("a [2, 3]"));
  EXPECT_THAT(problems(rule("c", "a", "shape = '[4]'\nops = ['reshape [2, 2]']"), kInverse,
                       {tensor("c", {4})}),
              ElementsAre(AllOf(HasSubstr("c: "), HasSubstr("[2, 2]"), HasSubstr("[4]"))));
}

TEST(Mapping, TakesTensorsWithoutElementsAndScalars) {
  const std::string map =
      rule("c", "['a', 'b']", "shape = '[F]'\nops = ['stack 0']\nto_shape = '[2, F]'") +
      rule("s", "r");
  EXPECT_THAT(mapped(map, kForward, {tensor("a", {0}), tensor("b", {0}), tensor("r", {})}),
              ElementsAre("c [2, 0]", "s []"));
  EXPECT_THAT(mapped(map, kInverse, {tensor("c", {2, 0}), tensor("s", {})}),
              ElementsAre("a [0]", "b [0]", "r []"));
}

TEST(Mapping, ListsNotMoreProblemsThanAnyoneReads) {
  std::vector<SourceTensor> tensors = {tensor("a", {1})};
  for (int i = 0; i < 5000; ++i) tensors.push_back(tensor("n" + std::to_string(i), {1}));
  const std::vector<std::string> messages = problems(rule("c", "a"), kForward, tensors);
  EXPECT_EQ(messages.size(), 1001U);
  EXPECT_THAT(messages.front(), HasSubstr("5000 such tensors"));
  EXPECT_THAT(messages.back(), HasSubstr("4000 more problems"));
}

}  // namespace
}  // namespace reshardfs::modelmap::testing
