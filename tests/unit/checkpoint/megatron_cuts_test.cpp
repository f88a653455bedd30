// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "checkpoint/megatron/tensor_cuts.h"
#include "support/errors.h"
#include "unit/format/pickle_samples.h"

namespace reshardfs::megatron_cuts_tests {
namespace {

using test::expect_error;
namespace p = test::pickled;

MegatronArgs args_of(const p::Pairs& values) {
  const std::string object =
      p::build(p::new_object(p::global("argparse", "Namespace")), p::named(values));
  const PickleTree tree(p::pickle(object), PickleRules());
  return {tree, tree.root()};
}

/// Four heads of two channels, two query groups.
MegatronArgs usual(p::Pairs more = {}) {
  p::Pairs values{{"num_attention_heads", p::number(4)}, {"group_query_attention", p::kTrue},
                  {"num_query_groups", p::number(2)},    {"kv_channels", p::number(2)},
                  {"padded_vocab_size", p::number(64)},  {"swiglu", p::kTrue}};
  values.insert(values.end(), more.begin(), more.end());
  return args_of(values);
}

std::string words_of(MegatronCut cut) {
  switch (cut) {
    case MegatronCut::kWhole:
      return "whole";
    case MegatronCut::kRows:
      return "rows";
    case MegatronCut::kGatedRows:
      return "gated rows";
    case MegatronCut::kColumns:
      return "columns";
  }
  return "";
}

/// Of two ranks.
std::string cut_among(const std::string& name, const LocalShapes& shapes,
                      const MegatronArgs& args = usual()) {
  const auto cut = MegatronCuts(args, shapes, 2).find(name);
  return cut ? words_of(*cut) : cut.origin();
}

std::string cut_of(const std::string& name, const Shape& shape,
                   const MegatronArgs& args = usual()) {
  return cut_among(name, {{name, shape}}, args);
}

const std::string kFirst = "decoder.layers.0.mlp.linear_fc1.weight";
const std::string kSecond = "decoder.layers.0.mlp.linear_fc2.weight";

TEST(MegatronArguments, AreTheAttributesOfAnObject) {
  const MegatronArgs args = args_of({{"n", p::number(7)},
                                     {"t", p::kTrue},
                                     {"f", p::kFalse},
                                     {"none", p::kNone},
                                     {"text", p::text("rope")},
                                     {"list", p::list({p::number(1)})},
                                     {"type", p::global("torch", "bfloat16")},
                                     {"twice", p::number(1)},
                                     {"twice", p::list({})}});
  EXPECT_EQ(args.number("n"), 7);
  EXPECT_FALSE(args.number("t"));
  EXPECT_EQ(args.flag("t"), true);
  EXPECT_EQ(args.flag("f"), false);
  EXPECT_FALSE(args.flag("n"));
  EXPECT_TRUE(args.is_none("none"));
  for (const char* name : {"n", "t", "text", "list", "type", "twice"}) {
    EXPECT_TRUE(args.is_set(name)) << name;
  }
  for (const char* name : {"f", "none", "missing"}) EXPECT_FALSE(args.is_set(name)) << name;
  EXPECT_FALSE(args.number("twice"));
  EXPECT_EQ(args.words("n") + args.words("t") + args.words("none") + args.words("text") +
                args.words("missing") + args.words("list"),
            "7TrueNone'rope'not stateda value of another type");
}

TEST(MegatronArguments, AreBounded) {
  EXPECT_FALSE(args_of({{"text", p::text(std::string(257, 'x'))}}).text("text"));
  p::Pairs many;
  for (int i = 0; i <= 16384; ++i) many.emplace_back(std::to_string(i), p::kNone);
  expect_error(ErrorKind::kBadInput, {"more than 16384 arguments"}, [&] { args_of(many); });
}

TEST(MegatronArguments, NoObjectHasNone) {
  const PickleTree tree(p::pickle(p::named({{"a", p::number(1)}})), PickleRules());
  EXPECT_TRUE(MegatronArgs(tree, tree.root()).empty());
  EXPECT_TRUE(MegatronArgs(tree, PickleValue()).empty());
}

TEST(MegatronArguments, TellTheFirstDifference) {
  constexpr std::array<std::string_view, 3> kNames{"a", "b", "c"};
  const MegatronArgs one = args_of({{"a", p::number(1)}, {"b", p::kNone}, {"d", p::number(1)}});
  EXPECT_FALSE(one.difference(args_of({{"a", p::number(1)}, {"b", p::kNone}}), kNames));
  EXPECT_EQ(one.difference(args_of({{"a", p::number(1)}}), kNames), "b");
  EXPECT_EQ(one.difference(args_of({{"a", p::kTrue}, {"b", p::kNone}}), kNames), "a");
}

TEST(MegatronCuts, AreThoseOfTheModules) {
  EXPECT_EQ(cut_of("embedding.word_embeddings.weight", {8, 4}), "rows");
  EXPECT_EQ(cut_of("embedding.position_embeddings.weight", {8, 4}), "whole");
  EXPECT_EQ(cut_of("decoder.layers.3.self_attention.linear_qkv.bias", {8}), "rows");
  EXPECT_EQ(cut_of("decoder.layers.3.self_attention.linear_qkv.layer_norm_weight", {8}), "whole");
  EXPECT_EQ(cut_of("decoder.layers.3.self_attention.linear_proj.weight", {8, 4}), "columns");
  EXPECT_EQ(cut_of("decoder.layers.3.self_attention.linear_proj.bias", {8}), "whole");
  EXPECT_EQ(cut_of("decoder.layers.3.mlp.experts.linear_fc2.weight11", {8, 4}), "columns");
  EXPECT_EQ(cut_of("decoder.layers.3.mlp.router.weight", {8, 4}), "whole");
}

TEST(MegatronCuts, OtherNamesAreUnknown) {
  for (const char* name : {"decoder.layers.0.mixer.in_proj.weight", "linear_qkv.lora_a", "weight",
                           "x", "decoder.layers.3.self_attention.linear_qkv.weight2"}) {
    EXPECT_EQ(cut_of(name, {4, 4}), "no rule states how tensor-parallel ranks share it") << name;
  }
  EXPECT_EQ(cut_of("decoder.layers.3.self_attention.linear_proj.weight", {8}),
            "it has 1 dimensions, too few for a tensor of this name");
}

TEST(MegatronCuts, TheSecondModuleShowsWhetherTheFirstHasAGate) {
  EXPECT_EQ(cut_among(kFirst, {{kFirst, {6, 4}}, {kSecond, {4, 3}}}), "gated rows");
  EXPECT_EQ(cut_among(kFirst, {{kFirst, {3, 4}}, {kSecond, {4, 3}}}, args_of({})), "rows");
  EXPECT_EQ(cut_among(kFirst, {{kFirst, {3, 4}}, {kSecond, {4, 3}}}),
            "the arguments state swiglu, but it has no rows of a gate");
  EXPECT_EQ(cut_among(kFirst, {{kFirst, {7, 4}}, {kSecond, {4, 3}}}),
            "it has 7 rows, which do not fit the 3 columns of '" + kSecond + "'");
  EXPECT_EQ(cut_of(kFirst, {6, 4}),
            "only '" + kSecond + "', which is missing, shows whether it has rows of a gate");
  const std::string first = "a.mlp.experts.linear_fc1.weight3";
  const std::string second = "a.mlp.experts.linear_fc2.weight3";
  EXPECT_EQ(cut_among(first, {{first, {6, 4}}, {second, {4, 3}}}), "gated rows");
  const auto taking_turns = usual({{"moe_mlp_glu_interleave_size", p::number(32)}});
  EXPECT_EQ(cut_among(first, {{first, {6, 4}}, {second, {4, 3}}}, taking_turns),
            "its rows of gate and up alternate (moe_mlp_glu_interleave_size)");
  EXPECT_EQ(cut_among(kFirst, {{kFirst, {6, 4}}, {kSecond, {4, 3}}}, taking_turns), "gated rows");
}

TEST(MegatronCuts, NormsOfOneHeadAreWhole) {
  const std::string query = "decoder.layers.0.self_attention.q_layernorm.weight";
  const std::string key = "decoder.layers.0.self_attention.k_layernorm.weight";
  EXPECT_EQ(cut_among(query, {{query, {2}}, {key, {2}}}), "whole");
  EXPECT_EQ(cut_among(key, {{query, {2}}, {key, {2}}}), "whole");
  const std::string other = "it is no norm of one head, which has the size 2";
  EXPECT_EQ(cut_among(query, {{query, {4}}, {key, {2}}}), other);
  EXPECT_EQ(cut_among(key, {{query, {4}}, {key, {2}}}), other);
  EXPECT_EQ(cut_of(key, {2}), other);
  EXPECT_EQ(cut_among(query, {{query, {2}}, {key, {2}}}, args_of({})),
            "the arguments state no kv_channels, the size of a head");
}

TEST(MegatronCuts, RanksOfLatentAttentionShowTheFormOfDownProjections) {
  const MegatronArgs args = args_of({{"q_lora_rank", p::number(8)},
                                     {"kv_lora_rank", p::number(6)},
                                     {"qk_pos_emb_head_dim", p::number(2)}});
  const std::string query = "a.self_attention.linear_q_down_proj.weight";
  EXPECT_EQ(cut_of(query, {8, 4}, args), "whole");
  EXPECT_EQ(cut_of(query, {4, 4}, args), "rows");
  EXPECT_EQ(cut_of(query, {3, 4}, args),
            "it has 3 rows, but by the arguments 8, or a part of them on each rank");
  EXPECT_EQ(cut_of("a.self_attention.linear_kv_down_proj.weight", {4, 4}, args), "rows");
  EXPECT_EQ(cut_of(query, {8, 4}), "the arguments state no number of its rows");
}

TEST(MegatronCuts, RowsMustBeThoseOfTheArguments) {
  const std::string qkv = "decoder.layers.0.self_attention.linear_qkv.weight";
  EXPECT_EQ(contradiction(usual(), qkv, {16, 8}), "");
  EXPECT_NE(contradiction(usual(), qkv, {24, 8}).find("result in 16"), std::string::npos);
  EXPECT_EQ(contradiction(usual({{"attention_output_gate", p::kTrue}}), qkv, {24, 8}), "");
  EXPECT_EQ(contradiction(args_of({}), qkv, {24, 8}), "");
  EXPECT_EQ(
      contradiction(usual({{"heterogeneous_layers_config_path", p::text("x")}}), qkv, {24, 8}), "");
  EXPECT_EQ(contradiction(usual(), "embedding.word_embeddings.weight", {64, 8}), "");
  EXPECT_NE(contradiction(usual(), "output_layer.weight", {62, 8}).find("64 with padding"),
            std::string::npos);
}

TEST(MegatronCuts, SizesMustBeThoseOfTheArguments) {
  const MegatronArgs args =
      usual({{"hidden_size", p::number(8)}, {"ffn_hidden_size", p::number(12)}});
  const std::string layer = "decoder.layers.0.";
  for (const auto& [name, shape] :
       std::map<std::string, Shape>{{"embedding.word_embeddings.weight", {64, 8}},
                                    {"decoder.final_layernorm.weight", {8}},
                                    {layer + "self_attention.linear_proj.weight", {8, 8}},
                                    {layer + "mlp.linear_fc1.weight", {24, 8}},
                                    {layer + "mlp.linear_fc2.weight", {8, 12}},
                                    {layer + "mlp.shared_experts.linear_fc2.weight", {8, 20}}}) {
    EXPECT_EQ(contradiction(args, name, shape), "") << name;
  }
  for (const auto& [name, shape] :
       std::map<std::string, Shape>{{"embedding.word_embeddings.weight", {64, 16}},
                                    {layer + "input_layernorm.weight", {16}},
                                    {layer + "self_attention.linear_qkv.weight", {16, 16}}}) {
    EXPECT_NE(contradiction(args, name, shape).find("hidden_size 8"), std::string::npos) << name;
  }
  EXPECT_EQ(contradiction(args, layer + "mlp.linear_fc2.weight", {8, 6}),
            "it is [8, 6], but the arguments state ffn_hidden_size 12");
}

TorchTensor tensor_of(const Shape& shape, const Shape& strides) {
  TorchTensor tensor;
  tensor.name = "x";
  tensor.shape = shape;
  tensor.strides = strides;
  tensor.first = 5;
  return tensor;
}

TEST(MegatronParts, LieBesideEachOther) {
  const TorchTensor tensor = tensor_of({2, 3}, {3, 1});
  const PlacedPart whole = place_part(tensor, MegatronCut::kWhole, {1, 4}, std::nullopt);
  EXPECT_EQ(whole.full_shape, (Shape{2, 3}));
  EXPECT_EQ(whole.offsets, (std::vector<Shape>{{0, 0}}));
  const PlacedPart rows = place_part(tensor, MegatronCut::kRows, {1, 4}, std::nullopt);
  EXPECT_EQ(rows.full_shape, (Shape{8, 3}));
  EXPECT_EQ(rows.offsets, (std::vector<Shape>{{2, 0}}));
  const PlacedPart columns = place_part(tensor, MegatronCut::kColumns, {1, 4}, std::nullopt);
  EXPECT_EQ(columns.full_shape, (Shape{2, 12}));
  EXPECT_EQ(columns.offsets, (std::vector<Shape>{{0, 3}}));
}

TEST(MegatronParts, OfAGateLieAboveTheOthersOfAllRanks) {
  const PlacedPart part =
      place_part(tensor_of({4, 3}, {1, 4}), MegatronCut::kGatedRows, {1, 3}, std::nullopt);
  EXPECT_EQ(part.full_shape, (Shape{12, 3}));
  EXPECT_EQ(part.offsets, (std::vector<Shape>{{2, 0}, {8, 0}}));
  ASSERT_EQ(part.boxes.size(), 2U);
  EXPECT_EQ(part.boxes[0].shape, (Shape{2, 3}));
  EXPECT_EQ(part.boxes[0].first, 5);
  EXPECT_EQ(part.boxes[1].first, 7);
  EXPECT_EQ(part.boxes[1].strides, (Shape{1, 4}));
  EXPECT_EQ(part.boxes[1].name, "");
}

TEST(MegatronParts, OfExpertsAreStacked) {
  const PlacedPart part =
      place_part(tensor_of({4, 3}, {3, 1}), MegatronCut::kGatedRows, {1, 2}, OneOf{5, 8});
  EXPECT_EQ(part.full_shape, (Shape{8, 8, 3}));
  EXPECT_EQ(part.offsets, (std::vector<Shape>{{5, 2, 0}, {5, 6, 0}}));
  EXPECT_EQ(part.boxes[1].shape, (Shape{1, 2, 3}));
  EXPECT_TRUE(is_contiguous(part.boxes[1]));
}

TEST(MegatronParts, MustNotBeTooLarge) {
  expect_error(ErrorKind::kBadInput, {"the length of the whole tensor"}, [] {
    place_part(tensor_of({1LL << 61, 0}, {1, 1}), MegatronCut::kRows, {0, 8}, std::nullopt);
  });
}

}  // namespace
}  // namespace reshardfs::megatron_cuts_tests
