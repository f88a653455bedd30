// SPDX-License-Identifier: Apache-2.0
/// Captures whose numbers in names are not their values.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"

namespace reshardfs::modelmap::testing::positions_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Direction kForward = Direction::kForward;
constexpr Direction kInverse = Direction::kInverse;

SourceTensor tensor(const std::string& name, const Shape& shape) {
  return {name, DType::kFloat32, shape};
}

std::vector<std::string> mapped(const std::string& map, Direction direction,
                                const std::vector<SourceTensor>& tensors) {
  MapOptions without_config;
  without_config.direction = direction;
  return targets_of(map_tensors(map_of(map), tensors, without_config));
}

std::vector<std::string> problems(const std::string& map, const MapOptions& of,
                                  const std::vector<SourceTensor>& tensors) {
  std::vector<std::string> messages;
  for (const auto& problem : check_mapping(map_of(map), tensors, of).problems) {
    messages.push_back(problem.error().what());
  }
  return messages;
}

/// Layers whose halves are layers of their own on the other side.
constexpr const char* kHalves = R"(
[counts]
layer = "layers"
[[map]]
to = "l.{2*layer}.attention"
from = "l.{layer}.attention"
[[map]]
to = "l.{2*layer+1}.mlp"
from = "l.{layer}.mlp"
)";

/// The same, of tensors with all layers.
constexpr const char* kStackedHalves = R"(
[[map]]
to = "l.{2*layer}.attention"
from = "l.attention"
range = { layer = "layers" }
shape = "[layers, A]"
ops = ["take 0 layer"]
to_shape = "[A]"
[[map]]
to = "l.{2*layer+1}.mlp"
from = "l.mlp"
range = { layer = "layers" }
shape = "[layers, A, B]"
ops = ["take 0 layer"]
to_shape = "[A, B]"
)";

TEST(Positions, OfMultiplesGoBothWays) {
  const std::vector<SourceTensor> whole = {tensor("l.0.attention", {4}), tensor("l.0.mlp", {5}),
                                           tensor("l.1.attention", {4}), tensor("l.1.mlp", {5})};
  EXPECT_THAT(mapped(kHalves, kForward, whole),
              ElementsAre("l.0.attention [4]", "l.1.mlp [5]", "l.2.attention [4]", "l.3.mlp [5]"));
  const std::vector<SourceTensor> halves = {tensor("l.0.attention", {4}), tensor("l.1.mlp", {5}),
                                            tensor("l.2.attention", {4}), tensor("l.3.mlp", {5})};
  EXPECT_THAT(mapped(kHalves, kInverse, halves),
              ElementsAre("l.0.attention [4]", "l.0.mlp [5]", "l.1.attention [4]", "l.1.mlp [5]"));
  const std::vector<SourceTensor> stacked = {tensor("l.attention", {2, 4}),
                                             tensor("l.mlp", {2, 5, 6})};
  EXPECT_THAT(
      mapped(kStackedHalves, kForward, stacked),
      ElementsAre("l.0.attention [4]", "l.2.attention [4]", "l.1.mlp [5, 6]", "l.3.mlp [5, 6]"));
  EXPECT_THAT(mapped(kStackedHalves, kInverse,
                     {tensor("l.0.attention", {4}), tensor("l.2.attention", {4}),
                      tensor("l.1.mlp", {5, 6}), tensor("l.3.mlp", {5, 6})}),
              ElementsAre("l.attention [2, 4]", "l.mlp [2, 5, 6]"));
}

TEST(Positions, AreCountedByTheCaptureAndNotByTheName) {
  // Of 2 layers, the names have numbers up to 3.
  const std::vector<SourceTensor> halves = {tensor("l.0.attention", {4}), tensor("l.1.mlp", {5}),
                                            tensor("l.2.attention", {4}), tensor("l.3.mlp", {5})};
  EXPECT_THAT(problems(kHalves, options(kInverse, R"({"num_layers": 2})"), halves), ElementsAre());
  EXPECT_THAT(problems(kHalves, options(kInverse, R"({"num_layers": 3})"), halves),
              ElementsAre(HasSubstr("'layers' of config.json is 3, but the names of the tensors "
                                    "have 2 of {layer} (0 to 1), and layer 2 is missing")));
  EXPECT_THAT(problems(kHalves, options(kInverse), {halves[0], halves[1], halves[2]}),
              ElementsAre(HasSubstr("l.3.mlp: missing in the source")));
}

TEST(Positions, OfAnotherRemainderBelongToNoRule) {
  EXPECT_THAT(problems(kHalves, options(kInverse),
                       {tensor("l.0.attention", {4}), tensor("l.1.mlp", {5}),
                        tensor("l.3.attention", {4})}),
              ElementsAre(HasSubstr("l.3.attention: no rule uses it")));
}

TEST(Positions, DependOnNoOtherCapture) {
  const auto refusal = [](const std::string& to, const std::string& from) {
    return refusal_of([&] {
      map_of("[[map]]\nto = \"" + to + "\"\nfrom = \"" + from + "\"\nrange = { j = 2 }\n");
    });
  };
  EXPECT_THAT(refusal("a.{2*i+j}", "b.{i}.{j}"),
              HasSubstr("line 1: the number of {i} in 'a.{2*i+j}' depends on 'j', which is a "
                        "capture"));
}

// --- patterns of layers

std::string pattern_refusal(const std::string& text) {
  return refusal_of([&] { LayerPattern::parse(text); });
}

TEST(LayerPatterns, AreReadWithSegmentsAndFurtherTokens) {
  const LayerPattern pattern = LayerPattern::parse("M*-|M*-||-/*-/*-");
  EXPECT_EQ(pattern.decoder(), "M*-M*--");
  EXPECT_EQ(pattern.next_tokens(), "*-");
  EXPECT_THAT(pattern.segments(), ElementsAre(3, 3, 0, 1));
  EXPECT_THAT(pattern.positions("*"), ElementsAre(1, 4));
  EXPECT_THAT(pattern.positions("-M"), ElementsAre(0, 2, 3, 5, 6));
  EXPECT_THAT(pattern.positions("E"), ElementsAre());
}

TEST(LayerPatterns, RefuseWhatIsNone) {
  EXPECT_THAT(pattern_refusal(""), HasSubstr("the hybrid layer pattern '' has no layer"));
  EXPECT_THAT(pattern_refusal("|"), HasSubstr("has no layer"));
  EXPECT_THAT(pattern_refusal("*-/"), HasSubstr("has no layer behind a '/'"));
  EXPECT_THAT(pattern_refusal("*-x"), HasSubstr("has 'x', which is no symbol of a layer"));
  EXPECT_THAT(pattern_refusal("*-/*|-"), HasSubstr("has '|', which is no symbol of a layer"));
  EXPECT_THAT(pattern_refusal("[*-]"), HasSubstr("has '[': groups of layers are not supported"));
  EXPECT_THAT(pattern_refusal("*-+-"), HasSubstr("has '*' together with '+'"));
  EXPECT_THAT(pattern_refusal("*-D-"), HasSubstr("has '*' together with 'D'"));
  EXPECT_THAT(pattern_refusal("*-/*-/*E"), HasSubstr("'*-' and '*E'"));
  EXPECT_THAT(pattern_refusal(std::string(100'000, '-')), HasSubstr("is longer than"));
}

/// "hybrid *-M" or "gpt *-*-"; "no".
std::string named(const std::vector<LayerTensor>& tensors) {
  const auto layers = layers_of_names(tensors);
  return layers ? (layers->is_hybrid ? "hybrid " : "gpt ") + layers->text() : "no";
}

TEST(LayerPatterns, FollowFromNames) {
  EXPECT_EQ(named({{"decoder.layers.0.self_attention.linear_qkv.weight", 3},
                   {"decoder.layers.1.mlp.linear_fc1.weight", 3},
                   {"decoder.layers.2.mixer.A_log", 3},
                   {"decoder.layers.3.mlp.linear_fc1.layer_norm_weight", 3},
                   {"decoder.layers.3.mlp.router.weight", 3},
                   {"decoder.layers.4.self_attention.in_proj.weight.query", 3},
                   {"decoder.layers.5.self_attention.linear_kv_down_proj.weight", 3},
                   {"decoder.layers.6.self_attention.linear_kv_down_proj.weight", 3},
                   {"decoder.layers.6.self_attention.core_attention.indexer.k_norm.weight", 3}}),
            "hybrid *-MEG+D");
  EXPECT_EQ(named({{"decoder.layers.1.mlp.linear_fc1.weight", 3},
                   {"decoder.final_norm.weight", 3},
                   {"mtp.layers.0.mtp_model_layer.layers.1.mlp.router.weight", 3},
                   {"mtp.layers.0.mtp_model_layer.layers.0.self_attention.linear_qkv.weight", 3}}),
            "hybrid ?-/*E");
  EXPECT_EQ(named({{"decoder.layers.0.self_attention.linear_qkv.weight", 3},
                   {"decoder.layers.0.mlp.linear_fc1.weight", 3},
                   {"decoder.layers.1.self_attention.linear_qkv.weight", 3},
                   {"decoder.layers.1.mlp.router.weight", 3},
                   {"mtp.layers.0.transformer_layer.self_attention.linear_qkv.weight", 3},
                   {"mtp.layers.0.transformer_layer.mlp.router.weight", 3}}),
            "gpt *-*E/*E");
  EXPECT_EQ(named({{"decoder.layers.self_attention.linear_qkv.weight", 3},
                   {"decoder.layers.mlp.linear_fc1.weight", 3}}),
            "gpt *-*-*-");
  // Hugging Face's.
  EXPECT_EQ(named({{"model.layers.0.linear_attn.A_log", 3},
                   {"model.layers.0.mlp.gate.weight", 3},
                   {"model.layers.1.self_attn.q_proj.weight", 3},
                   {"model.layers.1.mlp.gate_proj.weight", 3},
                   {"model.layers.2.self_attn.kv_b_proj.weight", 3},
                   {"model.layers.2.mlp.gate_proj.weight", 3}}),
            "gpt GE*-?-");
  // A norm of this name is no proof by itself.
  EXPECT_EQ(named({{"decoder.final_norm.weight", 3}}), "no");
  EXPECT_EQ(named({{"decoder.final_norm.weight", 3},
                   {"decoder.layers.0.self_attention.linear_qkv.weight", 3},
                   {"decoder.layers.0.mlp.linear_fc1.weight", 3}}),
            "no");
  EXPECT_EQ(named({{"decoder.layers.99999999.mlp.linear_fc1.weight", 3}}), "no");
}

// --- in maps

constexpr const char* kPairs = R"(
[counts]
layer = 'count("-E")'
[[block]]
name = "attention"
from = "decoder.layers.{layer}."
to = 'decoder.layers.{nth(layer, "*+DGWCH")}.'
[[block]]
name = "mlp"
from = "decoder.layers.{layer}."
to = 'decoder.layers.{nth(layer, "-E")}.'
[[map]]
to = "@attention:self_attention.{rest:*}"
from = "@attention:self_attention.{rest:*}"
require = { that = 'count("*+DGWCH") == count("-E")', say = "not in pairs" }
[[map]]
to = "@mlp:mlp.{rest:*}"
from = "@mlp:mlp.{rest:*}"
)";

std::vector<SourceTensor> gpt(std::int64_t layers) {
  std::vector<SourceTensor> tensors;
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = "decoder.layers." + std::to_string(i) + ".";
    tensors.push_back(tensor(layer + "self_attention.linear_qkv.weight", {4, i + 1}));
    tensors.push_back(tensor(layer + "mlp.linear_fc1.weight", {5, i + 1}));
  }
  return tensors;
}

MapOptions with_pattern(const std::string& pattern, Direction direction = kForward) {
  MapOptions out = options(direction);
  out.pattern = StatedPattern{pattern, "a test"};
  return out;
}

TEST(Positions, OfSymbolsFollowThePattern) {
  const ModelMap map = map_of(kPairs);
  const auto shown = [&](const MapOptions& of, const std::vector<SourceTensor>& tensors) {
    return targets_of(map_tensors(map, tensors, of));
  };
  EXPECT_THAT(shown(with_pattern("*--*"), gpt(2)),
              ElementsAre("decoder.layers.0.self_attention.linear_qkv.weight [4, 1]",
                          "decoder.layers.1.mlp.linear_fc1.weight [5, 1]",
                          "decoder.layers.3.self_attention.linear_qkv.weight [4, 2]",
                          "decoder.layers.2.mlp.linear_fc1.weight [5, 2]"));
  // Without a pattern, each layer is its attention and its MLP.
  const auto twins = ElementsAre("decoder.layers.0.self_attention.linear_qkv.weight [4, 1]",
                                 "decoder.layers.1.mlp.linear_fc1.weight [5, 1]",
                                 "decoder.layers.2.self_attention.linear_qkv.weight [4, 2]",
                                 "decoder.layers.3.mlp.linear_fc1.weight [5, 2]");
  EXPECT_THAT(shown(options(kForward), gpt(2)), twins);
  EXPECT_THAT(shown(options(kForward, R"({"hybrid_override_pattern": "*-|*-"})"), gpt(2)), twins);
  // The other way, the source's own names tell it.
  EXPECT_THAT(
      shown(options(kInverse), {tensor("decoder.layers.0.mlp.linear_fc1.weight", {5}),
                                tensor("decoder.layers.1.self_attention.linear_qkv.weight", {4})}),
      ElementsAre("decoder.layers.0.mlp.linear_fc1.weight [5]",
                  "decoder.layers.0.self_attention.linear_qkv.weight [4]"));
}

TEST(Positions, RefusePatternsThatTheSourceContradicts) {
  const auto refusal = [&](const std::string& pattern, Direction direction,
                           const std::vector<SourceTensor>& tensors) {
    return refusal_of(
        [&] { map_tensors(map_of(kPairs), tensors, with_pattern(pattern, direction)); });
  };
  EXPECT_THAT(refusal("*-*-*-", kForward, gpt(2)),
              HasSubstr("map.toml: the hybrid layer pattern '*-*-*-' (a test) pairs with 3 layers, "
                        "but the names of the tensors have 2"));
  EXPECT_THAT(refusal("*-*", kForward, gpt(2)), HasSubstr("has 2 attention and 1 MLP layers"));
  EXPECT_THAT(refusal("M*-*-", kForward, gpt(2)), HasSubstr("asks for 'M' layers"));
  EXPECT_THAT(refusal("*-*E", kForward, gpt(2)),
              HasSubstr("has 'E' for the MLP of layer 1, whose tensors are those of '-'"));
  EXPECT_THAT(refusal("+-+-", kForward, gpt(2)),
              HasSubstr("has '+' for the attention of layer 0, whose tensors are those of '*'"));
  const std::vector<SourceTensor> hybrid = {
      tensor("decoder.layers.0.self_attention.linear_qkv.weight", {4}),
      tensor("decoder.layers.1.mlp.linear_fc1.weight", {5}),
      tensor("decoder.layers.2.self_attention.linear_qkv.weight", {4})};
  EXPECT_THAT(refusal("*-", kInverse, hybrid),
              HasSubstr("has 2 layers, but the names of the tensors have 3"));
  EXPECT_THAT(refusal("*E*", kInverse, hybrid),
              HasSubstr("has 'E' for layer 1, whose tensors are those of '-'"));
  EXPECT_THAT(refusal("*-*", kInverse, hybrid),
              HasSubstr("'count(\"-E\")' of the hybrid layer pattern is 1, but the names of the "
                        "tensors have 2 of {layer}"));
}

TEST(Positions, AreUnknownWithoutAPattern) {
  std::vector<SourceTensor> partial = gpt(2);
  partial[1].name = "decoder.layers.0.mlp.unknown";
  EXPECT_THAT(problems(kPairs, options(kForward), partial),
              ::testing::Contains(HasSubstr(
                  "unknown variable 'hybrid_layer_pattern', since no name of a tensor tells what "
                  "layer 0 is; give --map-var hybrid_layer_pattern='*-*-'")));
}

TEST(Positions, MissALayerWithoutAnyTensorOfItsHalf) {
  std::vector<SourceTensor> source = gpt(3);
  source.erase(source.begin() + 2);
  EXPECT_THAT(problems(kPairs, with_pattern("*-*-*-"), source),
              ElementsAre(HasSubstr("decoder.layers.1.self_attention.linear_qkv.weight: missing in "
                                    "the source")));
}

TEST(Blocks, AddAnAxisForTheCaptureThatASideLacks) {
  const std::string spread = R"(
[[block]]
from = "all."
to = "l.{2*layer}."
stack = "{layer}"
range = { layer = "layers" }
[[map]]
to = "@{rest:*}"
from = "@{rest:*}"
[vars]
layers = 2
)";
  const std::vector<SourceTensor> stacked = {tensor("all.a", {2, 3}), tensor("all.b", {2, 4, 5}),
                                             tensor("all.c", {2})};
  const std::vector<SourceTensor> single = {tensor("l.0.a", {3}),    tensor("l.2.a", {3}),
                                            tensor("l.0.b", {4, 5}), tensor("l.2.b", {4, 5}),
                                            tensor("l.0.c", {}),     tensor("l.2.c", {})};
  const auto all = ElementsAre("all.a [2, 3]", "all.b [2, 4, 5]", "all.c [2]");
  const auto each =
      ElementsAre("l.0.a [3]", "l.2.a [3]", "l.0.b [4, 5]", "l.2.b [4, 5]", "l.0.c []", "l.2.c []");
  EXPECT_THAT(mapped(spread, kForward, stacked), each);
  EXPECT_THAT(mapped(spread, kInverse, single), all);
  EXPECT_THAT(problems(spread, options(kForward), {tensor("all.a", {3, 3})}),
              ElementsAre(HasSubstr("all.a: 'layers' is 2, the tensor has 3")));
  EXPECT_THAT(problems(spread, options(kForward), {tensor("all.a", {})}),
              ElementsAre(HasSubstr("all.a: it is a scalar")));
  EXPECT_THAT(problems(spread, options(kInverse), {tensor("l.0.a", {3})}),
              ElementsAre(HasSubstr("all.a: 3 elements would come from nowhere")));
  const std::string collect = R"(
[[block]]
from = "l.{2*layer}."
to = "all."
stack = "{layer}"
range = { layer = "layers" }
[[map]]
to = "@{rest:*}"
from = "@{rest:*}"
[vars]
layers = 2
)";
  EXPECT_THAT(mapped(collect, kForward, single), all);
  EXPECT_THAT(mapped(collect, kInverse, stacked), each);
  const std::string joined = R"(
[[block]]
from = "l.{layer}."
to = "all."
stack = "{layer}"
range = { layer = "2" }
[[map]]
to = "@ab"
from = ["@a", "@b"]
shape = "[A]"
ops = ["concat 0"]
to_shape = "[2*A]"
)";
  EXPECT_THAT(mapped(joined, kInverse, {tensor("all.ab", {2, 6})}),
              ElementsAre("l.0.a [3]", "l.0.b [3]", "l.1.a [3]", "l.1.b [3]"));
}

TEST(Blocks, RefuseWhatFitsNoBlock) {
  const std::string blocks = R"(
[[block]]
name = "a"
from = "l.{i}."
to = "m.{i}."
)";
  const auto refusal = [&](const std::string& text) {
    return refusal_of([&] { map_of(blocks + text); });
  };
  EXPECT_THAT(refusal("[[map]]\nto = '@x'\nfrom = '@x'\n"),
              HasSubstr("line 6: '@' stands for the texts of a [[block]] without a name, and there "
                        "is none"));
  EXPECT_THAT(refusal("[[map]]\nto = '@b:x'\nfrom = '@b:x'\n"),
              HasSubstr("'@b:' stands for the texts of a [[block]] with the name 'b'"));
  EXPECT_THAT(refusal("[[map]]\nto = '@a:x'\nfrom = '@x'\n"),
              HasSubstr("a rule is in one block, but this one has '@x' and '@a:x'"));
  EXPECT_THAT(refusal("[[block]]\nname = 'a b'\nfrom = 'x'\nto = 'y'\n"),
              HasSubstr("line 7: 'a b' is no name that a block can have"));
  EXPECT_THAT(refusal("[[block]]\nfrom = 'x.{i}.'\nto = 'y.{i}.'\nstack = '{i}'\n"
                      "[[map]]\nto = '@x'\nfrom = '@x'\n"),
              HasSubstr("which has to stand in one of 'from' and 'to'"));
  EXPECT_THAT(refusal("[[block]]\nfrom = 'x.{i}.'\nto = 'y.'\nstack = '{i}'\n"
                      "[[map]]\nto = '@x'\nfrom = '@x'\n"),
              HasSubstr("needs a range for 'i'"));
  EXPECT_THAT(refusal("[[block]]\nfrom = 'x.{i}.'\nto = 'y.'\nstack = 'i'\n"
                      "[[map]]\nto = '@x'\nfrom = '@x'\n"),
              HasSubstr("'stack' of [[block]] is 'i', expected a capture"));
  EXPECT_THAT(refusal("[[block]]\nfrom = 'x.{i}.'\nto = 'y.'\nstack = '{i}'\nrange = {i = 2}\n"
                      "[[map]]\nto = 'all'\nfrom = '@x'\n"),
              HasSubstr("a name of the rule is not in its block, which has 'stack'"));
}

TEST(Conditions, TakeElementsOfListsInConfigJson) {
  const std::string map = R"(
[[map]]
to = "full.{layer}"
from = "l.{layer}"
when = 'layer_types[layer] == "full_attention"'
optional = true
[[map]]
to = "other.{layer}"
from = "l.{layer}"
when = "layer_types[layer] != 'full_attention'"
optional = true
[[map]]
to = "expert.{layer}"
from = "m.{layer}"
when = "moe_layer_freq[layer]"
optional = true
)";
  const auto shown = [&](const std::string& config, const std::vector<SourceTensor>& tensors) {
    return problems(map, options(kForward, config), tensors);
  };
  const std::vector<SourceTensor> layers = {tensor("l.0", {1}), tensor("l.1", {1}),
                                            tensor("l.2", {1})};
  const std::string config =
      R"({"text_config": {"layer_types": ["linear", "full_attention", "linear"]}})";
  EXPECT_THAT(targets_of(map_tensors(map_of(map), layers, options(kForward, config))),
              ElementsAre("other.0 [1]", "full.1 [1]", "other.2 [1]"));
  EXPECT_THAT(shown("{}", layers),
              ::testing::Contains(HasSubstr("unknown list 'layer_types', which config.json does")));
  EXPECT_THAT(
      shown(R"({"layer_types": ["a"]})", layers),
      ::testing::Contains(HasSubstr("'layer_types' of config.json has 1 value, and none for 1")));
  EXPECT_THAT(
      shown(R"({"layer_types": [1, 2, 3]})", layers),
      ::testing::Contains(HasSubstr("has the number 1 at 0, where the map expects a text")));
  EXPECT_THAT(
      shown(R"({"moe_layer_freq": ["x"]})", {tensor("m.0", {1})}),
      ::testing::Contains(HasSubstr("has the text 'x' at 0, where the map expects a number")));
  EXPECT_THAT(shown(R"({"moe_layer_freq": [0, true]})", {tensor("m.0", {1}), tensor("m.1", {1})}),
              ElementsAre(HasSubstr("m.0: no rule uses it")));
}

TEST(Positions, OfElementsFollowTheList) {
  const std::string map = R"(
[[block]]
name = "full"
from = 'l.{nth(i, kinds == "full")}.'
to = "full."
stack = "{i}"
range = { i = 'count(kinds == "full")' }
[[map]]
to = "@full:w"
from = "@full:w"
[[map]]
to = "o.{layer}.w"
from = "l.{layer}.w"
when = 'kinds[layer] != "full"'
)";
  const std::string config = R"({"kinds": ["full", "half", "full"]})";
  const std::vector<SourceTensor> apart = {tensor("l.0.w", {4}), tensor("l.1.w", {4}),
                                           tensor("l.2.w", {4})};
  EXPECT_THAT(targets_of(map_tensors(map_of(map), apart, options(kForward, config))),
              ElementsAre("full.w [2, 4]", "o.1.w [4]"));
  EXPECT_THAT(targets_of(map_tensors(map_of(map), {tensor("full.w", {2, 4}), tensor("o.1.w", {4})},
                                     options(kInverse, config))),
              ElementsAre("l.0.w [4]", "l.2.w [4]", "l.1.w [4]"));
  EXPECT_THAT(problems(map, options(kForward, "{}"), apart),
              ::testing::Contains(HasSubstr("unknown list 'kinds', which config.json does")));
  EXPECT_THAT(problems(map, options(kForward, R"({"kinds": [1, 2]})"), apart),
              ::testing::Contains(HasSubstr("has the number 1")));
}

TEST(Conditions, TakeSymbolsOfLayers) {
  const std::string map = R"(
[[map]]
to = "mixer.{p}"
from = "norm.{p}"
when = 'symbol(p) == "M"'
optional = true
[[map]]
to = "other.{p}"
from = "norm.{p}"
when = 'symbol(p) != "M" and count("M") == 1'
optional = true
)";
  const std::vector<SourceTensor> norms = {tensor("norm.0", {1}), tensor("norm.1", {1})};
  EXPECT_THAT(targets_of(map_tensors(map_of(map), norms, with_pattern("-M"))),
              ElementsAre("other.0 [1]", "mixer.1 [1]"));
  EXPECT_THAT(problems(map, with_pattern("M"), norms),
              ::testing::Contains(HasSubstr("the layer is 1, of 1 in the pattern")));
  const auto refusal = [](const std::string& condition) {
    return refusal_of([&] { Expression::parse(condition, ExpressionKind::kCondition); });
  };
  EXPECT_THAT(refusal("symbol(p)"), HasSubstr("is compared with a text by == or !="));
  EXPECT_THAT(refusal("symbol(p) == 1"), HasSubstr("is compared with a text by == or !="));
  EXPECT_THAT(refusal("symbol(p"), HasSubstr("')' is missing"));
  EXPECT_THAT(refusal("symbol(p) == 'x'"), HasSubstr("'x' is no symbol of a layer"));
  EXPECT_THAT(refusal("count(p)"), HasSubstr("'==' and a text are expected behind 'p'"));
  EXPECT_THAT(refusal("count('')"), HasSubstr("a text is empty"));
  EXPECT_THAT(refusal("count('*'"), HasSubstr("')' is missing"));
  EXPECT_THAT(refusal("list[1"), HasSubstr("']' is missing"));
  EXPECT_THAT(refusal("list[] == 1"), HasSubstr("a number or a name is expected"));
  EXPECT_THAT(refusal("list[0] == 'x"), HasSubstr("a text in quotation marks is expected"));
  const auto pattern = [](const std::string& text) {
    return refusal_of([&] { Pattern::parse(text); });
  };
  EXPECT_THAT(pattern("l.{nth(i)}"), HasSubstr("is not as {nth(layer, \"*+\")}"));
  EXPECT_THAT(pattern("l.{nth(i, *)}"), HasSubstr("is not as {nth(layer, \"*+\")}"));
  EXPECT_THAT(pattern("l.{nth(i, '*'}"), HasSubstr("is not as {nth(layer, \"*+\")}"));
  EXPECT_THAT(pattern("l.{nth(i, kinds == )}"), HasSubstr("is not as {nth(layer, \"*+\")}"));
  EXPECT_THAT(pattern("l.{nth(i, 2 == 'a')}"), HasSubstr("is not as {nth(layer, \"*+\")}"));
  EXPECT_THAT(pattern("l.{nth(2, '*')}"), HasSubstr("has no name"));
  EXPECT_THAT(pattern("l.{nth(i, '*x')}"), HasSubstr("has 'x', which is no symbol of a layer"));
}

TEST(Pattern, TakesAnyText) {
  const Pattern pattern = Pattern::parse("a.{rest:*}");
  const auto values = pattern.match("a.b.c", pattern.plain_numberings());
  ASSERT_TRUE(values);
  EXPECT_EQ((*values)[0].word, "b.c");
  EXPECT_EQ(pattern.fill(*values, pattern.plain_numberings()), "a.b.c");
  EXPECT_FALSE(pattern.match("a.", pattern.plain_numberings()));
  const Pattern middle = Pattern::parse("a.{rest:*}.{p:w|b}");
  const auto two = middle.match("a.b.w.w", middle.plain_numberings());
  ASSERT_TRUE(two);
  EXPECT_EQ((*two)[0].word, "b.w");
}

}  // namespace
}  // namespace reshardfs::modelmap::testing::positions_tests
