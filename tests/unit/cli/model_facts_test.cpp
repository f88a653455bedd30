// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/model_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

modelmap::ModelMap map_between(const std::string& from, const std::string& from_name,
                               const std::string& to, const std::string& to_name) {
  const std::string text = "[sides]\nfrom = \"" + from + "\"\nto = \"" + to +
                           "\"\n[[map]]\nfrom = \"" + from_name + "\"\nto = \"" + to_name + "\"\n";
  return modelmap::load_model_map("family.toml", [&](const auto&) { return text; });
}

TEST(ModelFacts, LayersWithoutAGap) {
  EXPECT_EQ(model_facts({{"layers.0.w", "layers.1.w", "layers.1.v", "head"}}, {}).layers, 2);
  EXPECT_EQ(model_facts({{"a.h.0.w"}}, {}).layers, 1);
  EXPECT_EQ(model_facts({{"layers.0.w", "layers.2.w"}}, {}).layers, std::nullopt);
  EXPECT_EQ(model_facts({{"layers.1.w"}}, {}).layers, std::nullopt);
  EXPECT_EQ(model_facts({{"w", "layers.x.w"}}, {}).layers, std::nullopt);
}

TEST(ModelFacts, OfTwoNumberingsNeitherCounts) {
  EXPECT_EQ(model_facts({{"text.layers.0.w", "vision.layers.0.w"}}, {}).layers, std::nullopt);
}

TEST(ModelFacts, StagesThatCountFromZeroProveNoNumber) {
  const std::vector<std::string> names{"layers.0.a", "layers.0.b"};
  EXPECT_EQ(model_facts({names, {{0}, {1}}}, {}).layers, std::nullopt);
  EXPECT_EQ(model_facts({names, {{0, 1}, {0, 1}}}, {}).layers, std::nullopt);
  EXPECT_EQ(model_facts({{"layers.0.a", "layers.1.a"}, {{0}, {1}}}, {}).layers, 2);
}

TEST(ModelFacts, StatesAreNoWeights) {
  const ModelFacts facts =
      model_facts({{"layers.0.w", "adam_m.layers.0.w", "adam_v.layers.0.w", "global_step"}}, {});
  EXPECT_EQ(facts.weights, 1);
  EXPECT_EQ(facts.states, 3);
}

TEST(ModelFacts, ANetworkHasAllNames) {
  const std::vector<modelmap::ModelMap> maps{map_between(
      "Hugging Face", "model.layers.{n}.q.weight", "MindFormers", "decoder.layers.{n}.wq.weight")};
  const ModelFacts hub =
      model_facts({{"model.layers.0.q.weight", "model.layers.1.q.weight"}}, maps);
  EXPECT_THAT(hub.networks, ElementsAre("Hugging Face"));
  EXPECT_THAT(hub.maps, ElementsAre("family"));
  EXPECT_THAT(model_facts({{"decoder.layers.0.wq.weight"}}, maps).networks,
              ElementsAre("MindFormers"));
  EXPECT_THAT(model_facts({{"model.layers.0.q.weight", "extra"}}, maps).networks, IsEmpty());
  EXPECT_THAT(model_facts({{"adam_m.model.layers.0.q.weight"}}, maps).networks, IsEmpty());
}

TEST(ModelFacts, NamesThatDifferInNumbersMayBeOfOtherNetworks) {
  const std::vector<modelmap::ModelMap> first{
      map_between("Hugging Face", "layers.{n}.mlp.0.weight", "MindFormers", "layers.{n}.first")};
  EXPECT_THAT(model_facts({{"layers.0.mlp.0.weight", "layers.1.mlp.0.weight"}}, first).networks,
              ElementsAre("Hugging Face"));
  EXPECT_THAT(model_facts({{"layers.0.mlp.0.weight", "layers.0.mlp.1.weight"}}, first).networks,
              IsEmpty());
  const std::vector<modelmap::ModelMap> words{map_between(
      "Hugging Face", "layers.{n}.{p:w1|w3}", "MindFormers", "layers.{n}.mlp.{p:w1|w3}")};
  EXPECT_THAT(model_facts({{"layers.0.w1", "layers.0.w3"}}, words).networks,
              ElementsAre("Hugging Face"));
  EXPECT_THAT(model_facts({{"layers.0.w1", "layers.0.w2"}}, words).networks, IsEmpty());
  EXPECT_THAT(model_facts({{"layers.0.w1", "layers.00.w1"}}, words).networks, IsEmpty());
  const std::vector<modelmap::ModelMap> twice{
      map_between("Hugging Face", "layers.{n}.of.{n}", "MindFormers", "layers.{n}")};
  EXPECT_THAT(model_facts({{"layers.1.of.1", "layers.1.of.2"}}, twice).networks, IsEmpty());
}

}  // namespace
}  // namespace reshardfs
