// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/model_shapes.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

constexpr const char* kConfig =
    R"({"vocab_size": 100, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 24, "tie_word_embeddings": true})";

ShapeVerdict verdict(const char* config, const std::string& name, const Shape& shape) {
  return judge_extent(shape, ModelShapes(config).find(name));
}

TEST(ModelShapes, AreThoseOfKnownNames) {
  const std::string layer = "model.layers.3.";
  EXPECT_EQ(verdict(kConfig, "model.embed_tokens.weight", {100, 16}), ShapeVerdict::kFits);
  EXPECT_EQ(verdict(kConfig, layer + "self_attn.q_proj.weight", {16, 16}), ShapeVerdict::kFits);
  EXPECT_EQ(verdict(kConfig, layer + "self_attn.k_proj.weight", {8, 16}), ShapeVerdict::kFits);
  EXPECT_EQ(verdict(kConfig, layer + "mlp.down_proj.weight", {16, 24}), ShapeVerdict::kFits);
  EXPECT_EQ(verdict(kConfig, "adam_m.lm_head.weight", {100, 16}), ShapeVerdict::kFits);
  EXPECT_EQ(verdict(kConfig, "output.weight", {100, 16}), ShapeVerdict::kFits);
  EXPECT_TRUE(ModelShapes(kConfig).ties_embeddings().value_or(false));
}

TEST(ModelShapes, TellWhatIsShort) {
  EXPECT_EQ(verdict(kConfig, "lm_head.weight", {96, 16}), ShapeVerdict::kShort);
  EXPECT_EQ(verdict(kConfig, "model.norm.weight", {8}), ShapeVerdict::kShort);
  EXPECT_EQ(verdict(kConfig, "a.mlp.up_proj.weight", {16, 16}), ShapeVerdict::kShort);
  const auto stated = ModelShapes(kConfig).find("lm_head.weight");
  ASSERT_TRUE(stated);
  EXPECT_EQ(short_words({96, 16}, *stated, "2 shards"),
            "has 96 rows in 2 shards, but config.json states a vocabulary of 100");
  EXPECT_EQ(short_words({100, 8}, *stated, "2 shards"),
            "is [100, 8] in 2 shards, but according to config.json it should be [100, 16]");
}

TEST(ModelShapes, AreUnknownWhereTheConfigurationIsOfSomethingElse) {
  // Two dimensions differ, or one is larger, or the number of dimensions is another.
  EXPECT_EQ(verdict(kConfig, "lm_head.weight", {96, 8}), ShapeVerdict::kUnknown);
  EXPECT_EQ(verdict(kConfig, "model.norm.weight", {32}), ShapeVerdict::kUnknown);
  EXPECT_EQ(verdict(kConfig, "model.norm.weight", {4, 4}), ShapeVerdict::kUnknown);
  EXPECT_EQ(verdict(kConfig, "w", {100, 16}), ShapeVerdict::kUnknown);
  EXPECT_EQ(verdict(kConfig, "vision_tower.self_attn.q_proj.weight", {8, 16}),
            ShapeVerdict::kUnknown);
  // Rows may fill the vocabulary up.
  EXPECT_EQ(verdict(kConfig, "lm_head.weight", {128, 16}), ShapeVerdict::kFits);
}

TEST(ModelShapes, NeedEachNumberOfAShape) {
  EXPECT_EQ(verdict(R"({"vocab_size": 100})", "lm_head.weight", {100, 16}), ShapeVerdict::kFits);
  EXPECT_EQ(verdict(R"({"vocab_size": 100})", "lm_head.weight", {96, 16}), ShapeVerdict::kShort);
  EXPECT_EQ(verdict(R"({"hidden_size": 16})", "lm_head.weight", {96, 16}), ShapeVerdict::kUnknown);
  // The number of key heads has no default.
  EXPECT_EQ(verdict(R"({"hidden_size": 16, "num_attention_heads": 4})",
                    "model.layers.0.self_attn.k_proj.weight", {16, 16}),
            ShapeVerdict::kUnknown);
  // Latent attention has other shapes under the same names.
  EXPECT_EQ(verdict(R"({"hidden_size": 16, "num_attention_heads": 4, "kv_lora_rank": 8})",
                    "model.layers.0.self_attn.o_proj.weight", {16, 8}),
            ShapeVerdict::kUnknown);
}

TEST(ModelShapes, AreNoneOfWhatIsNoConfiguration) {
  for (const char* text :
       {"", "[", "[]", "null", R"({"vocab_size": "100"})", R"({"vocab_size": -5})",
        R"({"vocab_size": 0})", R"({"vocab_size": 99999999999999})"}) {
    EXPECT_EQ(verdict(text, "lm_head.weight", {4, 4}), ShapeVerdict::kUnknown) << text;
  }
}

RowsVerdict rows_of(const std::string& a, const Shape& a_shape, const std::string& b,
                    const Shape& b_shape) {
  return judge_rows({a, a_shape}, {b, b_shape});
}

TEST(TwinRows, AreThoseOfAWeightItsBiasAndItsStates) {
  EXPECT_EQ(twin_names("w.weight"), std::vector<std::string>{"w.bias"});
  EXPECT_EQ(twin_names("adam_m.w.bias"), std::vector<std::string>{"w.bias"});
  EXPECT_EQ(twin_names("w.bias"), std::vector<std::string>{});
  EXPECT_EQ(rows_of("w.weight", {8, 3}, "w.bias", {8}), RowsVerdict::kSame);
  EXPECT_EQ(rows_of("w.weight", {8, 3}, "w.bias", {12}), RowsVerdict::kFirstIsShort);
  EXPECT_EQ(rows_of("w.bias", {8}, "w.weight", {12, 3}), RowsVerdict::kFirstIsShort);
  EXPECT_EQ(rows_of("w.weight", {8, 3}, "w.bias", {3}), RowsVerdict::kUnknown);
  EXPECT_EQ(rows_of("adam_m.w", {8, 3}, "w", {12, 3}), RowsVerdict::kFirstIsShort);
  EXPECT_EQ(rows_of("adam_m.w", {8, 3}, "w", {4, 3}), RowsVerdict::kSecondIsShort);
  EXPECT_EQ(rows_of("adam_m.w", {8, 3}, "w", {8, 4}), RowsVerdict::kUnknown);
  EXPECT_EQ(rows_of("adam_m.w", {}, "w", {}), RowsVerdict::kUnknown);
}

TEST(TwinRows, OfASquareWeightAreNotToldByItsBias) {
  EXPECT_EQ(rows_of("w.weight", {4, 4}, "w.bias", {4}), RowsVerdict::kUnknown);
  EXPECT_EQ(rows_of("w.bias", {4}, "w.weight", {4, 4}), RowsVerdict::kSame);
}

TEST(TwinRows, HaveWords) {
  const std::string weight = "w.weight";
  const std::string bias = "w.bias";
  const Shape matrix{8, 3};
  const Shape vector{12};
  EXPECT_EQ(short_words({weight, matrix}, {bias, vector}, "2 ranks"),
            "has 8 rows in 2 ranks, but 'w.bias' has 12 elements");
}

}  // namespace
}  // namespace reshardfs
