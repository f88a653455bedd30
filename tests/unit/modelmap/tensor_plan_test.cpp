// SPDX-License-Identifier: Apache-2.0
/// Which dimensions a framework's plan cuts.
#include "modelmap/tensor_plan.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"

namespace reshardfs::modelmap::testing::tensor_plan_tests {
namespace {

using ::testing::HasSubstr;

const std::string kTable = R"(
text = ["", "model.", "model.language_model."]
embeddings = ["embed_tokens"]
heads = ["lm_head"]
last = ["norm"]
inside = ["norm", "mlp.{w:gate|up}"]
beside = ["vision"]

[[plan]]
types = ["small", "other"]
rows = ["layers.{layer}.attn.{w:q|k}", "layers.{layer}.sinks"]
columns = ["layers.{layer}.attn.o"]
packed = ["layers.{layer}.mlp.gate_up"]

[[plan]]
types = ["seeing"]
rows = ["vision.{n}.fc"]
whole = ["lm_head"]

[[plan]]
types = ["heads"]
source = "vLLM"
text = ["own."]
heads = "2*n"
rows = ["layers.{layer}.qkv"]
)";

std::optional<TensorPlan> plan(const std::vector<std::string>& types) {
  return read_tensor_plan("tp.toml", kTable, types);
}

std::optional<std::size_t> cut(const TensorPlan& plan, const std::string& name,
                               const Shape& shape = {8, 4}) {
  return plan.cut_of(name, shape).dimension;
}

TEST(TensorPlan, CutsRowsWithTheBiasAndColumnsWithoutIt) {
  const TensorPlan small = *plan({"small"});
  EXPECT_EQ(cut(small, "model.layers.3.attn.q.weight"), 0U);
  EXPECT_EQ(cut(small, "model.layers.3.attn.k.bias", {8}), 0U);
  EXPECT_EQ(cut(small, "model.layers.3.attn.o.weight"), 1U);
  EXPECT_EQ(cut(small, "model.layers.3.attn.o.bias", {8}), std::nullopt);
  EXPECT_EQ(cut(small, "layers.3.sinks", {8}), 0U);
  EXPECT_EQ(cut(small, "model.embed_tokens.weight"), 0U);
  EXPECT_EQ(cut(small, "lm_head.weight"), 0U);
}

TEST(TensorPlan, CountsSeveralPlansOfATypeTogether) {
  const std::string more =
      kTable + "\n[[plan]]\ntypes = ['other']\nrows = ['layers.{layer}.mlp.fc1']\n";
  const TensorPlan other = *read_tensor_plan("tp.toml", more, {"other"});
  EXPECT_EQ(cut(other, "model.layers.3.mlp.fc1.weight"), 0U);
  EXPECT_EQ(cut(other, "model.layers.3.attn.o.weight"), 1U);
  EXPECT_EQ(other.origin(), "tp.toml, line 9, line 27");
  EXPECT_FALSE(read_tensor_plan("tp.toml", more, {"small"})
                   ->cut_of("layers.3.mlp.fc1.weight", {8, 4})
                   .is_known);
}

TEST(TensorPlan, TellsBetweenWhichHeadsItCuts) {
  const TensorPlan heads = *plan({"heads"});
  EXPECT_EQ(heads.heads()->text(), "2*n");
  EXPECT_THAT(heads.origin(), HasSubstr(": vLLM"));
  EXPECT_TRUE(heads.cut_of("own.layers.3.qkv.weight", {8, 4}).is_by_heads);
  EXPECT_FALSE(heads.cut_of("own.embed_tokens.weight", {8, 4}).is_by_heads);
  EXPECT_FALSE(heads.cut_of("own.layers.3.norm.weight", {8}).is_by_heads);
  // No other plan has its prefix.
  EXPECT_FALSE(plan({"small"})->heads());
  EXPECT_FALSE(plan({"small"})->cut_of("own.embed_tokens.weight", {8, 4}).is_known);
}

TEST(TensorPlan, LeavesWholeWhatItDoesNotName) {
  const TensorPlan small = *plan({"small"});
  for (const char* name : {"model.layers.3.norm.weight", "vision.layers.3.attn.q.weight",
                           "model.layers.x.attn.q.weight", "vision.0.fc.weight"}) {
    EXPECT_FALSE(small.cut_of(name, {8, 4}).is_named) << name;
    EXPECT_EQ(cut(small, name), std::nullopt) << name;
  }
  for (const char* name : {"model.layers.3.norm.weight", "layers.3.mlp.up", "vision.0.fc.weight",
                           "model.vision", "model.norm.weight"}) {
    EXPECT_TRUE(small.cut_of(name, {8, 4}).is_known) << name;
  }
  for (const char* name : {"model.layers.3.mlp.other.weight", "model.score.weight", "visions.0",
                           "model.layers.x.attn.q.weight"}) {
    EXPECT_FALSE(small.cut_of(name, {8, 4}).is_known) << name;
  }
  EXPECT_TRUE(small.cut_of("model.layers.0.mlp.gate_up.weight", {8, 4}).is_packed);
}

TEST(TensorPlan, HasThePlansOfTheWholeAndOfItsLanguageModel) {
  const TensorPlan both = *plan({"seeing", "small"});
  EXPECT_EQ(cut(both, "vision.0.fc.weight"), 0U);
  EXPECT_EQ(cut(both, "model.language_model.layers.0.attn.q.weight"), 0U);
  const TensorPlan::Cut head = both.cut_of("lm_head.weight", {8, 4});
  EXPECT_TRUE(head.is_named);
  EXPECT_EQ(head.dimension, std::nullopt);
  EXPECT_EQ(both.origin(), "tp.toml, line 15; tp.toml, line 9");
  EXPECT_FALSE(plan({"unknown"}).has_value());
  EXPECT_FALSE(plan({}).has_value());
}

TEST(TensorPlan, TellsStagesByNames) {
  const TensorPlan small = *plan({"small"});
  EXPECT_TRUE(small.place_of("model.embed_tokens.weight")->first);
  EXPECT_TRUE(small.place_of("model.norm.weight")->last);
  EXPECT_TRUE(small.place_of("lm_head.weight")->last);
  const auto layer = small.place_of("model.language_model.layers.12.anything");
  ASSERT_TRUE(layer.has_value());
  EXPECT_EQ(layer->layer, 12);
  EXPECT_EQ(layer->stack, "model.language_model.layers.");
  EXPECT_FALSE(small.place_of("vision.layers.0.fc").has_value());
}

TEST(TensorPlan, NamesTheLineThatIsWrong) {
  EXPECT_THAT(refusal_of([] { read_tensor_plan("tp.toml", kTable + "columns = 3\n", {"heads"}); }),
              HasSubstr("tp.toml"));
}

/// Its expressions and patterns can be read, and types stand once.
TEST(TensorPlan, TheInstalledTableIsSound) {
  const auto file = repository() / "config/maps/parts/transformers-tp.toml";
  const auto llama = read_tensor_plan(file.string(), text_of_file(file), {"llama"});
  ASSERT_TRUE(llama.has_value());
  EXPECT_EQ(cut(*llama, "model.layers.0.self_attn.q_proj.weight"), 0U);
  EXPECT_EQ(cut(*llama, "model.layers.0.self_attn.o_proj.weight"), 1U);
}

}  // namespace
}  // namespace reshardfs::modelmap::testing::tensor_plan_tests
