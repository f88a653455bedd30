// SPDX-License-Identifier: Apache-2.0
/// The strategy files of config/, each applied to the names that it is about.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout/slicing.h"
#include "rules_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StrategyRules example(const std::string& name) {
  return StrategyRules::load(std::filesystem::path(RESHARDFS_GOLDEN_DIR) / ".." / ".." / "config" /
                             name);
}

/// As MindFormers names a dense model, with the moments of an Adam optimizer.
std::vector<NamedShape> dense_model(int layers) {
  std::vector<NamedShape> weights{{"model.tok_embeddings.embedding_weight", {32000, 4096}},
                                  {"model.norm_out.weight", {4096}},
                                  {"lm_head.weight", {32000, 4096}}};
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    for (const char* name : {"wq", "wk", "wv"}) {
      weights.push_back({layer + "attention." + name + ".weight", {4096, 4096}});
      weights.push_back({layer + "attention." + name + ".bias", {4096}});
    }
    weights.push_back({layer + "attention.wo.weight", {4096, 4096}});
    weights.push_back({layer + "feed_forward.w1.weight", {11008, 4096}});
    weights.push_back({layer + "feed_forward.w2.weight", {4096, 11008}});
    weights.push_back({layer + "feed_forward.w3.weight", {11008, 4096}});
    weights.push_back({layer + "attention_norm.weight", {4096}});
    weights.push_back({layer + "ffn_norm.weight", {4096}});
  }
  std::vector<NamedShape> all{{"global_step", {}}};
  for (const char* prefix : {"", "adam_m.", "adam_v."}) {
    for (const NamedShape& weight : weights) all.push_back({prefix + weight.name, weight.shape});
  }
  return all;
}

/// Every parameter can be sliced, and every rule takes one.
Strategy applied(const StrategyRules& rules, const std::vector<NamedShape>& parameters) {
  EXPECT_THAT(rules.unused(parameters), IsEmpty());
  EXPECT_THAT(rules.unmatched(parameters), IsEmpty());
  Strategy strategy = rules.apply(parameters);
  for (const NamedShape& parameter : parameters) {
    SCOPED_TRACE(parameter.name);
    EXPECT_TRUE(strategy.contains(parameter.name));
    for (const std::int64_t stage : strategy.stages_of(parameter.name)) {
      EXPECT_NO_THROW(Slicing(strategy.stage(stage).at(parameter.name), parameter.shape));
    }
  }
  return strategy;
}

/// What a rank of a stage stores of a parameter.
Shape slice_of(const Strategy& strategy, std::int64_t stage, const NamedShape& parameter,
               std::int64_t rank = 0) {
  return Slicing(strategy.stage(stage).at(parameter.name), parameter.shape).slice_shape(rank);
}

TEST(RulesExamples, Dense) {
  const Strategy strategy = applied(example("strategy-dense.toml"), dense_model(32));
  EXPECT_EQ(strategy.stage_count(), 2);
  EXPECT_EQ(strategy.devices_per_stage(), 8);
  const std::string layer = "adam_m.model.layers.16.";
  EXPECT_THAT(strategy.stages_of(layer + "attention.wq.weight"), ElementsAre(1));
  EXPECT_THAT(strategy.stages_of(layer + "ffn_norm.weight"), ElementsAre(1));
  EXPECT_THAT(strategy.stages_of("model.layers.15.ffn_norm.weight"), ElementsAre(0));
  EXPECT_THAT(strategy.stages_of("adam_v.model.tok_embeddings.embedding_weight"), ElementsAre(0));
  EXPECT_THAT(strategy.stages_of("model.norm_out.weight"), ElementsAre(1));
  EXPECT_THAT(strategy.stages_of("lm_head.weight"), ElementsAre(1));
  EXPECT_THAT(strategy.stages_of("global_step"), ElementsAre(0, 1));
  EXPECT_EQ(slice_of(strategy, 1, {layer + "attention.wq.weight", {4096, 4096}}),
            (Shape{1024, 4096}));
  EXPECT_EQ(slice_of(strategy, 1, {layer + "feed_forward.w2.weight", {4096, 11008}}),
            (Shape{4096, 2752}));
  EXPECT_EQ(slice_of(strategy, 1, {layer + "attention.wk.bias", {4096}}), (Shape{1024}));
  EXPECT_EQ(slice_of(strategy, 1, {layer + "ffn_norm.weight", {4096}}), (Shape{4096}));
}

TEST(RulesExamples, DenseWithOptimizerParallel) {
  const Strategy strategy = applied(example("strategy-dense-optimizer.toml"), dense_model(2));
  const std::string layer = "model.layers.1.";
  EXPECT_EQ(slice_of(strategy, 0, {layer + "attention.wq.weight", {4096, 4096}}),
            (Shape{512, 4096}));
  EXPECT_EQ(slice_of(strategy, 0, {layer + "attention.wo.weight", {4096, 4096}}),
            (Shape{1024, 2048}));
  EXPECT_EQ(slice_of(strategy, 0, {layer + "ffn_norm.weight", {4096}}), (Shape{512}));
  EXPECT_EQ(slice_of(strategy, 0, {"global_step", {}}), (Shape{}));
}

TEST(RulesExamples, MixtureOfExperts) {
  const std::string layer = "model.layers.0.";
  const std::vector<NamedShape> model{{layer + "feed_forward.ffn.w1", {8, 1024, 4096}},
                                      {layer + "feed_forward.ffn.w2", {8, 4096, 1024}},
                                      {layer + "feed_forward.router.dense.weight", {8, 1024}},
                                      {layer + "attention.wq.weight", {1024, 1024}},
                                      {layer + "attention.wo.weight", {1024, 1024}},
                                      {layer + "ffn_norm.weight", {1024}}};
  const Strategy strategy = applied(example("strategy-moe.toml"), model);
  EXPECT_EQ(strategy.rank_count(), 16);
  EXPECT_EQ(slice_of(strategy, 0, model[0]), (Shape{2, 1024, 2048}));
  EXPECT_EQ(slice_of(strategy, 0, model[1]), (Shape{2, 2048, 1024}));
  EXPECT_EQ(slice_of(strategy, 0, model[2]), (Shape{8, 1024}));
  EXPECT_EQ(slice_of(strategy, 0, model[3]), (Shape{512, 1024}));
  // Rank 11 is (dp 1, ep 1, tp 1).
  const Slicing experts(strategy.stage(0).at(model[0].name), model[0].shape);
  EXPECT_THAT(experts.parts_of(11), ElementsAre(1, 0, 1));
}

TEST(RulesExamples, SplitVocabulary) {
  const std::vector<NamedShape> model{{"model.tok_embeddings.embedding_weight", {32003, 64}},
                                      {"adam_m.lm_head.weight", {32003, 64}},
                                      {"model.layers.0.attention.wq.weight", {64, 64}}};
  const Strategy strategy = applied(example("strategy-vocabulary.toml"), model);
  EXPECT_EQ(slice_of(strategy, 0, model[0], 0), (Shape{4001, 64}));
  EXPECT_EQ(slice_of(strategy, 0, model[0], 2), (Shape{4001, 64}));
  EXPECT_EQ(slice_of(strategy, 0, model[1], 3), (Shape{4000, 64}));
  EXPECT_EQ(slice_of(strategy, 0, model[2], 7), (Shape{64, 64}));
}

TEST(RulesExamples, HybridParallel) {
  const std::vector<NamedShape> model{{"embedding_table", {20, 4}}, {"moments.wide_w", {32, 1}},
                                      {"weight", {8, 8}},           {"moments.weight", {8, 8}},
                                      {"learning_rate", {}},        {"momentum", {}}};
  const Strategy strategy = applied(example("strategy-hybrid.toml"), model);
  EXPECT_EQ(slice_of(strategy, 0, model[0], 1), (Shape{9, 4}));
  EXPECT_EQ(slice_of(strategy, 0, model[0], 2), (Shape{1, 4}));
  EXPECT_EQ(slice_of(strategy, 0, model[1], 1), (Shape{8, 1}));
  EXPECT_EQ(strategy.stage(0).at("moments.wide_w").field, 4);
  EXPECT_EQ(slice_of(strategy, 0, model[3], 3), (Shape{2, 8}));
  EXPECT_EQ(slice_of(strategy, 0, model[5], 3), (Shape{}));
}

}  // namespace
}  // namespace reshardfs::testing
