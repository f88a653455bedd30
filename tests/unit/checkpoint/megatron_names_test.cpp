// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/megatron/rank_directory.h"
#include "checkpoint/megatron/tensor_names.h"

namespace reshardfs::megatron_names_tests {
namespace {

using Numbers = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

Names names_of(const MegatronSizes& sizes) {
  Names names;
  for (const MegatronRank& rank : saving_ranks(sizes)) names.push_back(mp_rank_name(rank, sizes));
  return names;
}

std::string expert_words(const std::string& name) {
  const auto expert = parse_expert(name);
  return expert ? std::to_string(expert->number) + " of " + expert->stacked : "none";
}

TEST(MegatronRankDirectory, HasOneToThreeNumbers) {
  EXPECT_EQ(parse_mp_rank("mp_rank_01"), Numbers{1});
  EXPECT_EQ(parse_mp_rank("mp_rank_01_002"), (Numbers{1, 2}));
  EXPECT_EQ(parse_mp_rank("mp_rank_01_002_003"), (Numbers{1, 2, 3}));
  EXPECT_EQ(parse_mp_rank("mp_rank_128_1000"), (Numbers{128, 1000}));
}

TEST(MegatronRankDirectory, OtherNamesAreNone) {
  for (const char* name : {"mp_rank", "mp_rank_", "mp_rank_1", "mp_rank_001", "mp_rank_00_01",
                           "mp_rank_00_001_002_003", "mp_rank_00.pt", "mp_rank_-1", "mp_rank_00_",
                           "xmp_rank_00", "mp_rank_99999999999999999999"}) {
    EXPECT_FALSE(parse_mp_rank(name)) << name;
  }
}

TEST(MegatronRankDirectory, NamesStagesAndExpertsOnlyWhereThereAreSeveral) {
  EXPECT_EQ(names_of({}), Names{"mp_rank_00"});
  EXPECT_EQ(names_of({2, 1, 1, 2}), (Names{"mp_rank_00", "mp_rank_01"}));
  EXPECT_EQ(names_of({1, 2, 1, 1}), (Names{"mp_rank_00_000", "mp_rank_00_001"}));
  EXPECT_EQ(names_of({1, 1, 2, 1}), (Names{"mp_rank_00_000", "mp_rank_00_001"}));
  EXPECT_EQ(names_of({1, 2, 2, 1}), (Names{"mp_rank_00_000_000", "mp_rank_00_000_001",
                                           "mp_rank_00_001_000", "mp_rank_00_001_001"}));
}

/// Process r has tensor rank r % 4 and expert rank r % 2.
TEST(MegatronRankDirectory, WithWholeExpertsSomePairsOfRanksDoNotExist) {
  EXPECT_EQ(names_of({4, 1, 2, 1}),
            (Names{"mp_rank_00_000", "mp_rank_01_001", "mp_rank_02_000", "mp_rank_03_001"}));
  EXPECT_EQ(names_of({2, 1, 2, 2}).size(), 4U);
}

TEST(MegatronRankDirectory, ItsNumbersMeanWhatTheSizesSay) {
  const auto expert = megatron_rank({1, 2}, {2, 1, 4, 2});
  ASSERT_TRUE(expert);
  EXPECT_EQ(*expert, (MegatronRank{1, 0, 2}));
  const auto stage = megatron_rank({1, 2}, {2, 4, 1, 2});
  ASSERT_TRUE(stage);
  EXPECT_EQ(*stage, (MegatronRank{1, 2, 0}));
  for (const Numbers& numbers : {Numbers{2, 0}, Numbers{0, 4}, Numbers{0}, Numbers{0, 0, 0}}) {
    EXPECT_FALSE(megatron_rank(numbers, {2, 4, 1, 2}));
  }
}

TEST(MegatronModelName, IsBelowAKeyOfTheModel) {
  const auto plain = parse_model_name("model.decoder.final_layernorm.weight");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->local, "decoder.final_layernorm.weight");
  EXPECT_FALSE(plain->numbered);
  const auto second = parse_model_name("model1.a");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->chunk, 1U);
  EXPECT_TRUE(second->numbered);
  for (const char* name :
       {"model", "models.a", "optimizer.a", "model1", "model99999999.a", "modelx.a"}) {
    EXPECT_FALSE(parse_model_name(name)) << name;
  }
}

TEST(MegatronModelName, IsThatOfTheWholeModel) {
  const auto local = [](const char* name) { return parse_model_name(name)->local; };
  EXPECT_EQ(local("model.mtp.layers.0.mtp_model_layer.mlp.router.weight"),
            "mtp.layers.0.transformer_layer.mlp.router.weight");
  for (const char* same : {"mtp.layers.0.transformer_layer.mlp.router.weight",
                           "mtp.layers.0.mtp_model_layer.layers.1.mlp.router.weight",
                           "decoder.layers.0.mtp_model_layer.weight"}) {
    EXPECT_EQ(local((std::string("model.") + same).c_str()), same);
  }
}

TEST(MegatronModelName, TellsExtraStates) {
  EXPECT_TRUE(is_extra_state("decoder.layers.0.mlp.linear_fc1._extra_state"));
  EXPECT_TRUE(is_extra_state("mlp.experts.linear_fc1._extra_state12"));
  EXPECT_TRUE(is_extra_state("_extra_state"));
  EXPECT_FALSE(is_extra_state("a_extra_state.weight"));
}

TEST(MegatronLayers, AreNumbered) {
  EXPECT_EQ(decoder_layer("decoder.layers.12.mlp.linear_fc1.weight"), 12);
  EXPECT_EQ(with_layer("decoder.layers.1.mlp.linear_fc1.weight", 30),
            "decoder.layers.30.mlp.linear_fc1.weight");
  EXPECT_FALSE(decoder_layer("decoder.layers.weight"));
  EXPECT_FALSE(decoder_layer("decoder.layers.1"));
  EXPECT_FALSE(decoder_layer("decoder.final_layernorm.weight"));
  EXPECT_EQ(other_layers("mtp.layers.0.mtp_model_layer.layers.0.weight"), "mtp.layers.");
  EXPECT_EQ(other_layers("layers.0.weight"), "layers.");
  EXPECT_EQ(other_layers("decoder.layers.1.mlp.router.weight"), "");
  EXPECT_EQ(other_layers("output_layer.weight"), "");
}

TEST(MegatronExperts, HaveOneNameInBothModules) {
  const std::string stacked = "decoder.layers.0.mlp.experts.experts.linear_fc1.weight";
  EXPECT_EQ(expert_words("decoder.layers.0.mlp.experts.local_experts.3.linear_fc1.weight"),
            "3 of " + stacked);
  EXPECT_EQ(expert_words("decoder.layers.0.mlp.experts.linear_fc1.weight12"), "12 of " + stacked);
  EXPECT_EQ(expert_words("a.experts.linear_fc2.bias0"), "0 of a.experts.experts.linear_fc2.bias");
  for (const char* name :
       {"decoder.layers.0.mlp.shared_experts.linear_fc1.weight", "a.experts.weight1",
        "a.experts.linear_fc1.weight", "a.experts.local_experts.x.w", "a.experts.local_experts.1",
        "a.experts.linear_fc1.12"}) {
    EXPECT_EQ(expert_words(name), "none") << name;
  }
}

}  // namespace
}  // namespace reshardfs::megatron_names_tests
