// SPDX-License-Identifier: Apache-2.0
/// Which tensors a model must have, as its map states: all layers, and all that a layer has.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"

namespace reshardfs::modelmap::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Names = std::vector<std::string>;

constexpr const char* kBlocks = R"(
[counts]
layer = "layers"
[parts]
mlp = ["dense", "experts"]
[[block]]
from = "m.{layer}."
to = "d.{layer}."
[[map]]
to = "@norm"
from = "@norm"
[[map]]
to = "@proj.{p:weight|bias}"
from = "@proj.{p:weight|bias}"
optional = ["bias"]
[[map]]
to = "@q"
from = "@q"
optional = true
[[map]]
to = "@up"
from = "@up"
part = "dense"
[[map]]
to = "@router"
from = "@router"
part = "experts"
[[map]]
to = "@shared"
from = "@shared"
part = "experts"
optional = true
[[map]]
to = "head"
from = "embed"
)";

class Family : public ::testing::Test {
 protected:
  /// Of a model with two dense layers and, behind them, one of experts.
  static Names whole() {
    Names names = {"embed"};
    for (const std::string layer : {"m.0.", "m.1.", "m.2."}) {
      names.push_back(layer + "norm");
      names.push_back(layer + "proj.weight");
      names.push_back(layer + (layer == "m.2." ? "router" : "up"));
    }
    return names;
  }

  static Names without(Names names, const std::string& part) {
    std::erase_if(names,
                  [&](const std::string& name) { return name.find(part) != std::string::npos; });
    return names;
  }

  static Names with(Names names, const Names& more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  }

  /// In both directions, which name the same tensors.
  Names problems(const Names& names, const std::string& config = "{}") {
    const Names there = problems(names, Direction::kForward, config);
    Names others;
    for (const std::string& name : names) {
      const std::string prefix = name.starts_with("adam_m.") ? "adam_m." : "";
      const std::string bare = name.substr(prefix.size());
      others.push_back(prefix + (bare == "embed" ? "head" : "d" + bare.substr(1)));
    }
    EXPECT_EQ(problems(others, Direction::kInverse, config).size(), there.size());
    return there;
  }

  Names problems(const Names& names, Direction direction, const std::string& config) {
    std::vector<SourceTensor> tensors;
    for (const std::string& name : names) tensors.push_back({name, DType::kFloat32, {2}});
    options_.direction = direction;
    options_.config = ModelConfig::parse(config);
    Names messages;
    for (const auto& problem : check_mapping(map_, tensors, options_).problems) {
      messages.push_back(problem.message);
    }
    return messages;
  }

  ModelMap map_ = map_of(kBlocks);
  MapOptions options_{};
};

TEST_F(Family, HasAllItsLayers) {
  EXPECT_THAT(problems(whole()), IsEmpty());
  EXPECT_THAT(problems(whole(), R"({"num_hidden_layers": 3})"), IsEmpty());
  // Names alone state a number: one behind a gap.
  EXPECT_THAT(problems(without(whole(), "m.1.")),
              ElementsAre(AllOf(HasSubstr("have 3 of {layer}"), HasSubstr("layer 1 is missing"))));
  EXPECT_THAT(problems(without(without(whole(), "m.0."), "m.1.")),
              ElementsAre(HasSubstr("layer 0, 1 are missing")));
  EXPECT_THAT(problems(without(whole(), "m.2.")), IsEmpty());
}

TEST_F(Family, HasAsManyLayersAsItsConfigStates) {
  EXPECT_THAT(problems(without(whole(), "m.2."), R"({"num_hidden_layers": 3})"),
              ElementsAre(AllOf(HasSubstr("'layers' of config.json is 3"), HasSubstr("names"),
                                HasSubstr("have 2 of {layer}"), HasSubstr("layer 2 is missing"))));
  EXPECT_THAT(problems(whole(), R"({"num_hidden_layers": 2})"),
              ElementsAre(AllOf(HasSubstr("'layers' of config.json is 2"),
                                HasSubstr("have 3 of {layer}"))));
  options_.variables["layers"] = 2;
  EXPECT_THAT(problems(whole()), ElementsAre(HasSubstr("'layers' of --map-var is 2")));
}

TEST_F(Family, HasTheSameInEachLayer) {
  EXPECT_THAT(problems(without(whole(), "m.1.norm")),
              ElementsAre(AllOf(HasSubstr("m.1.norm: missing in the source (d.1.norm needs it)"),
                                HasSubstr("of 3 of {layer}, 1 lacks it"))));
  EXPECT_THAT(problems(without(without(whole(), "m.1.norm"), "m.2.norm")),
              ElementsAre(HasSubstr("1, 2 lack it")));
  EXPECT_THAT(problems(without(whole(), "embed")),
              ElementsAre(HasSubstr("embed: no tensor of the source is for this rule")));
  EXPECT_THAT(problems(without(whole(), "norm")),
              ElementsAre(HasSubstr("m.{layer}.norm: no tensor of the source is for this rule")));
}

TEST_F(Family, HasOptionalTensorsInAllLayersOrInNone) {
  EXPECT_THAT(problems(with(whole(), {"m.0.q", "m.1.q", "m.2.q"})), IsEmpty());
  EXPECT_THAT(problems(with(whole(), {"m.0.q", "m.2.q"})),
              ElementsAre(HasSubstr("m.1.q: missing in the source")));
  EXPECT_THAT(problems(with(whole(), {"m.0.proj.bias", "m.1.proj.bias", "m.2.proj.bias"})),
              IsEmpty());
  EXPECT_THAT(problems(with(whole(), {"m.0.proj.bias"})),
              ElementsAre(HasSubstr("m.1.proj.bias: missing in the source")));
  // The word that is not optional.
  EXPECT_THAT(problems(with(without(whole(), "m.1.proj.weight"), {"m.1.proj.bias"})),
              Contains(HasSubstr("m.1.proj.weight: missing in the source")));
}

TEST_F(Family, HasOnePartOfAChoiceInEachLayer) {
  EXPECT_THAT(problems(without(whole(), "m.1.up")),
              ElementsAre(AllOf(HasSubstr("layer 1: it has no tensor of 'mlp'"),
                                HasSubstr("m.1.up and m.1.router"))));
  EXPECT_THAT(problems(with(whole(), {"m.1.router"})),
              ElementsAre(AllOf(HasSubstr("layer 1"), HasSubstr("'dense' and of 'experts'"))));
  // What is optional in a part is asked for in those layers alone.
  EXPECT_THAT(problems(with(whole(), {"m.2.shared"})), IsEmpty());
  EXPECT_THAT(problems(with(without(whole(), "m.1.up"), {"m.1.router", "m.2.shared"})),
              ElementsAre(HasSubstr("m.1.shared: missing in the source")));
  // No layer need have it.
  EXPECT_THAT(problems(with(without(whole(), "router"), {"m.2.up"})), IsEmpty());
}

TEST_F(Family, MayLackWhatIsLeftOut) {
  options_.wants = [](const std::string& name) {
    return name.find(".1.") == std::string::npos && name.find("embed") == std::string::npos &&
           name != "head" && name.find(".norm") == std::string::npos;
  };
  EXPECT_THAT(problems(without(whole(), "m.1.")), IsEmpty());
  EXPECT_THAT(problems(without(whole(), "m.1.up")), IsEmpty());
  EXPECT_THAT(problems(without(whole(), "embed")), IsEmpty());
  EXPECT_THAT(problems(without(whole(), "norm")), IsEmpty());
  EXPECT_THAT(problems(without(whole(), "m.0.")), ElementsAre(HasSubstr("layer 0 is missing")));
  EXPECT_THAT(problems(without(whole(), "m.0.up")), ElementsAre(HasSubstr("layer 0: it has no")));
}

TEST_F(Family, IsNotAskedOfStates) {
  // States of an optimizer stand without weights, and those of a part of the weights beside them.
  EXPECT_THAT(problems({"adam_m.embed", "adam_m.m.0.norm", "adam_m.m.2.proj.weight"}), IsEmpty());
  EXPECT_THAT(problems(with(whole(), {"adam_m.m.0.norm"})), IsEmpty());
  EXPECT_THAT(problems(with(without(whole(), "m.1.norm"), {"adam_m.m.1.norm"})),
              ElementsAre(HasSubstr("m.1.norm: missing in the source")));
  EXPECT_THAT(
      problems(with(without(whole(), "embed"), {"adam_m.embed"}), Direction::kForward, "{}"),
      ElementsAre(HasSubstr("embed: no tensor of the source is for this rule")));
  options_.checks_family = false;
  EXPECT_THAT(problems(without(whole(), "m.1.")), IsEmpty());
}

TEST_F(Family, MayLackAnOptionalBlockAltogether) {
  map_ = map_of(R"(
[counts]
layer = "layers"
i = "num_nextn_predict_layers"
[[block]]
from = "m.{layer}."
to = "d.{layer}."
when = "layer < layers"
[[block]]
from = "m.{i+layers}."
to = "t.{i}."
optional = true
[[map]]
to = "@a"
from = "@a"
[[map]]
to = "@b"
from = "@b"
)");
  const std::string config = R"({"num_hidden_layers": 1, "num_nextn_predict_layers": 1})";
  const auto found = [&](const Names& names) {
    return problems(names, Direction::kForward, config);
  };
  EXPECT_THAT(found({"m.0.a", "m.0.b"}), IsEmpty());
  EXPECT_THAT(found({"m.0.a", "m.0.b", "m.1.a", "m.1.b"}), IsEmpty());
  EXPECT_THAT(found({"m.0.a", "m.0.b", "m.1.a"}),
              ElementsAre(HasSubstr("m.{i+layers}.b: no tensor of the source is for this rule")));
  EXPECT_THAT(found({"m.0.a", "m.0.b", "m.1.a", "m.1.b", "m.2.a", "m.2.b"}),
              ElementsAre(AllOf(HasSubstr("is 1, but"), HasSubstr("2 of {i}"))));
}

TEST_F(Family, HasNoHoleWhereAMapStatesNothing) {
  map_ = map_of(
      "[[block]]\nfrom = 'm.{l}.'\nto = 'd.{l}.'\n[[map]]\nto = '@a'\nfrom = '@a'\n"
      "[[map]]\nto = '@b'\nfrom = '@b'\n[[map]]\nto = 'x.{i}'\nfrom = 'y.{i}'\n"
      "optional = true\n");
  const auto found = [&](const Names& names) { return problems(names, Direction::kForward, "{}"); };
  EXPECT_THAT(found({"m.1.a", "m.2.b", "y.1", "y.7"}), IsEmpty());
  EXPECT_THAT(found({"m.1.a", "m.3.b"}), ElementsAre(HasSubstr("l 2 is missing in the source")));
}

TEST_F(Family, NamesBothNumbersOfExperts) {
  const std::string rule =
      "[[map]]\nto = 'all.{l}'\nfrom = 'one.{l}.{e}'\nrange = {e = 'experts'}\n"
      "shape = '[W]'\nops = ['stack 0 {e}']\nto_shape = '[experts, W]'\n";
  map_ = map_of("[counts]\nl = 'layers'\n" + rule);
  const Names three = {"one.0.0", "one.0.1", "one.0.2"};
  const auto found = [&](const Names& names, int experts) {
    return problems(names, Direction::kForward,
                    "{\"num_experts\": " + std::to_string(experts) + "}");
  };
  EXPECT_THAT(found(three, 3), IsEmpty());
  EXPECT_THAT(found(three, 4),
              Contains(AllOf(HasSubstr("'experts' of config.json is 4"), HasSubstr("3 of {e}"))));
  EXPECT_THAT(found(three, 2),
              Contains(AllOf(HasSubstr("'experts' of config.json is 2"), HasSubstr("3 of {e}"))));
  EXPECT_THAT(found({"one.0.0", "one.0.2"}, 3),
              Contains(HasSubstr("one.0.1: missing in the source (all.0 needs it)")));
}

TEST_F(Family, IsRefusedIfItIsWrittenWrongly) {
  const auto refusal = [](const std::string& text) { return refusal_of([&] { map_of(text); }); };
  EXPECT_THAT(refusal("[counts]\n'a b' = 1\n"), HasSubstr("[counts]"));
  EXPECT_THAT(refusal("[counts]\na = []\n"), HasSubstr("empty list"));
  EXPECT_THAT(refusal("[parts]\na = []\n"), HasSubstr("[parts]"));
  EXPECT_THAT(refusal("[parts]\na = 3\n"), HasSubstr("line 2"));
  const std::string rule = "[[map]]\nto = 'a.{p:x|y}'\nfrom = 'b.{p:x|y}'\n";
  EXPECT_THAT(refusal(rule + "optional = ['z']\n"), HasSubstr("'z', which no capture"));
  EXPECT_THAT(refusal(rule + "optional = 'x'\n"), HasSubstr("a list of words"));
  EXPECT_THAT(refusal(rule + "part = 3\n"), HasSubstr("line 4"));
}

}  // namespace
}  // namespace reshardfs::modelmap::testing
