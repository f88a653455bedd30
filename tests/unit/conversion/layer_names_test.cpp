// SPDX-License-Identifier: Apache-2.0
#include "conversion/stated_model/layer_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

LayerStack stack_of(const std::vector<std::vector<std::string_view>>& layers) {
  LayerStack stack;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const std::string_view rest : layers[i]) stack.add(static_cast<std::int64_t>(i), rest);
  }
  return stack;
}

std::vector<std::int64_t> uneven_layers(const LayerStack& stack,
                                        const std::vector<std::string>& kinds = {},
                                        bool has_biases = true) {
  std::vector<std::int64_t> numbers;
  for (const LayerStack::Uneven& layer : stack.uneven(kinds, has_biases)) {
    numbers.push_back(layer.number);
  }
  return numbers;
}

TEST(LayerNames, AreTheFirstNumberBehindAWord) {
  const auto layer = layer_of("model.layers.12.mlp.experts.3.up_proj.weight");
  ASSERT_TRUE(layer);
  EXPECT_EQ(layer->block, "model.layers");
  EXPECT_EQ(layer->number, 12);
  EXPECT_EQ(layer->rest, "mlp.experts.3.up_proj.weight");
  EXPECT_EQ(layer_of("h.0.ln_1.weight")->block, "h");
  EXPECT_FALSE(layer_of("model.norm.weight"));
  EXPECT_FALSE(layer_of("decoder.layers.self_attention.weight"));
  EXPECT_FALSE(layer_of("features.3.weight"));
}

TEST(LayerNames, CountOneStack) {
  LayerStack stack;
  for (const std::int64_t number : {0, 3, 4}) stack.add(number, "norm.weight");
  EXPECT_THAT(stack.lacking(6), ElementsAre(1, 2, 5));
  EXPECT_THAT(stack.gaps(), ElementsAre(1, 2));
  EXPECT_THAT(stack.lacking(1), IsEmpty());
}

TEST(LayerNames, TellWhatOneLayerLacks) {
  const LayerStack stack =
      stack_of({{"a.weight", "b.weight"}, {"a.weight"}, {"a.weight", "b.weight"}});
  const auto uneven = stack.uneven({}, /*has_biases=*/true);
  ASSERT_EQ(uneven.size(), 1U);
  EXPECT_EQ(uneven[0].number, 1);
  EXPECT_EQ(uneven[0].like, 0);
  EXPECT_THAT(uneven[0].rest, ElementsAre("b.weight"));
}

TEST(LayerNames, OfOtherKindsAreNotCompared) {
  // Dense layers and layers with experts have each something that the others lack.
  EXPECT_THAT(uneven_layers(stack_of({{"n.weight", "mlp.up.weight"},
                                      {"n.weight", "mlp.gate.weight"},
                                      {"n.weight", "mlp.gate.weight"}})),
              IsEmpty());
  // One layer alone has more than all others: it is of a kind of its own.
  EXPECT_THAT(
      uneven_layers(stack_of({{"n.weight", "position.weight"}, {"n.weight"}, {"n.weight"}})),
      IsEmpty());
  // The configuration says so.
  const LayerStack stack =
      stack_of({{"n.weight", "k.weight"}, {"n.weight", "k.weight"}, {"n.weight"}});
  EXPECT_THAT(uneven_layers(stack), ElementsAre(2));
  EXPECT_THAT(uneven_layers(stack, {"full", "full", "shared"}), IsEmpty());
}

TEST(LayerNames, QuantizedModulesAreModules) {
  EXPECT_THAT(
      uneven_layers(stack_of(
          {{"q.weight"}, {"q.weight_packed", "q.weight_scale"}, {"q.qweight", "q.scales"}})),
      IsEmpty());
  const LayerStack biases = stack_of({{"q.weight"}, {"q.qweight", "q.bias"}});
  EXPECT_THAT(uneven_layers(biases), ElementsAre(0));
  EXPECT_THAT(uneven_layers(biases, {}, /*has_biases=*/false), IsEmpty());
}

TEST(LayerTable, HasWholeWords) {
  ASSERT_NE(layer_rule("llama"), nullptr);
  EXPECT_EQ(layer_rule("llama")->word, "layers");
  EXPECT_EQ(layer_rule("gpt2")->word, "h");
  EXPECT_EQ(layer_rule("bert")->word, "layer");
  for (const char* type : {"", "lla", "llama mistral", "albert", "t5"}) {
    EXPECT_EQ(layer_rule(type), nullptr) << type;
  }
}

}  // namespace
}  // namespace reshardfs
