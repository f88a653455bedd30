// SPDX-License-Identifier: Apache-2.0
/// What the installed maps state, asked by name and shape.
#include "modelmap/family_cuts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/our_maps.h"
#include "unit/modelmap/map_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kModelConfig =
    R"({"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 96, "vocab_size": 512, "num_hidden_layers": 1})";

const std::vector<modelmap::ModelMap>& every_map() {
  static const std::vector<modelmap::ModelMap> maps =
      maps_in(modelmap::testing::repository() / "config/maps");
  return maps;
}

Known<FamilyCut> cut_of(const std::string& name, const Shape& shape,
                        const std::string& config = kModelConfig) {
  const FamilyCuts cuts(
      every_map(), config.empty() ? modelmap::ModelConfig() : modelmap::ModelConfig::parse(config));
  return cuts.find(name, shape, nullptr);
}

TEST(FamilyCuts, AreThoseOfTheHub) {
  const std::string layer = "model.layers.7.";
  EXPECT_EQ((*cut_of(layer + "self_attn.q_proj.weight", {128, 64})).dimension, 0U);
  EXPECT_EQ((*cut_of(layer + "self_attn.o_proj.weight", {64, 128})).dimension, 1U);
  EXPECT_EQ((*cut_of(layer + "mlp.down_proj.weight", {64, 96})).dimension, 1U);
  EXPECT_EQ((*cut_of("model.embed_tokens.weight", {512, 64})).dimension, 0U);
  EXPECT_EQ((*cut_of(layer + "input_layernorm.weight", {64})).dimension, std::nullopt);
}

TEST(FamilyCuts, KnowWhatRanksCannotShare) {
  const Known<FamilyCut> keys = cut_of("model.layers.0.self_attn.k_proj.weight", {32, 64});
  ASSERT_TRUE(keys);
  EXPECT_EQ((*keys).unit, "groups");
  EXPECT_EQ((*keys).units, 2);
  EXPECT_EQ((*cut_of("model.layers.0.self_attn.k_proj.weight", {32, 64}, "")).units, std::nullopt);
}

TEST(FamilyCuts, OfStatesAreThoseOfWeights) {
  EXPECT_EQ((*cut_of("adam_m.model.layers.0.self_attn.o_proj.weight", {64, 128})).dimension, 1U);
}

TEST(FamilyCuts, AreUnknownWhereNothingStatesThem) {
  EXPECT_THAT(cut_of("model.layers.0.adapter.weight", {4, 4}).origin(), HasSubstr("no model map"));
  // A name that maps have, of another number of dimensions.
  EXPECT_FALSE(cut_of("model.layers.0.self_attn.q_proj.weight", {2, 128, 64}));
}

TEST(FamilyCuts, OfOneElementNeedNoMap) {
  EXPECT_EQ((*cut_of("step", {})).dimension, std::nullopt);
  EXPECT_EQ((*cut_of("scale", {1, 1})).dimension, std::nullopt);
}

TEST(FamilyCuts, DoNotGoThroughMatricesThatStandInOne) {
  EXPECT_FALSE(cut_of("decoder.layers.0.mlp.linear_fc1.weight", {192, 64}));
  EXPECT_FALSE(cut_of("decoder.layers.0.self_attention.linear_qkv.weight", {192, 64}));
}

TEST(FamilyCuts, OfExpertsAreByExperts) {
  const Known<FamilyCut> cut = cut_of("model.layers.0.feed_forward.ffn.w2.weight", {4, 96, 64});
  ASSERT_TRUE(cut) << cut.origin();
  EXPECT_TRUE((*cut).by_experts);
  EXPECT_EQ((*cut).dimension, 0U);
}

}  // namespace
}  // namespace reshardfs::testing
