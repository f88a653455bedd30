// SPDX-License-Identifier: Apache-2.0
/// What maps state of pipeline stages: the installed ones, and what files can say wrong.
#include "modelmap/family_stages.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/our_maps.h"
#include "unit/modelmap/map_samples.h"

namespace reshardfs::family_stages_tests {
namespace {

using modelmap::testing::map_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kTied = R"({"num_hidden_layers": 4, "tie_word_embeddings": true})";
constexpr const char* kApart = R"({"num_hidden_layers": 4, "tie_word_embeddings": false})";

const std::vector<modelmap::ModelMap>& every_map() {
  static const std::vector<modelmap::ModelMap> maps =
      testing::maps_in(modelmap::testing::repository() / "config/maps");
  return maps;
}

Known<FamilyStage> stage_in(const std::vector<modelmap::ModelMap>& maps, const std::string& name,
                            const std::string& config = kApart, std::set<std::string> others = {},
                            const modelmap::MapPlace* made_by = nullptr) {
  const FamilyStages stages(
      maps, config.empty() ? modelmap::ModelConfig() : modelmap::ModelConfig::parse(config));
  return stages.find(name, made_by,
                     [&](const std::string& other) { return others.contains(other); });
}

/// "first", "last", "first last", "every", "layer 3 of 4 of 'model.layers.'", or why not.
std::string words_for(const Known<FamilyStage>& stage) {
  if (!stage) return stage.origin();
  std::string text;
  if ((*stage).first) text += " first";
  if ((*stage).last) text += " last";
  if ((*stage).every) text += " every";
  if ((*stage).layer) text += " layer " + std::to_string(*(*stage).layer);
  if ((*stage).layers) text += " of " + std::to_string(*(*stage).layers);
  if (!(*stage).stack.empty()) text += " of '" + (*stage).stack + "'";
  return text.empty() ? text : text.substr(1);
}

std::string stage_of(const std::string& name, const std::string& config = kApart,
                     std::set<std::string> others = {}) {
  return words_for(stage_in(every_map(), name, config, std::move(others)));
}

TEST(FamilyStages, OfTheHub) {
  EXPECT_EQ(stage_of("model.embed_tokens.weight"), "first");
  EXPECT_EQ(stage_of("model.norm.weight"), "last");
  EXPECT_EQ(stage_of("lm_head.weight"), "last");
  EXPECT_EQ(stage_of("model.layers.3.self_attn.q_proj.weight"), "layer 3 of 4 of 'model.layers.'");
  EXPECT_EQ(stage_of("model.layers.3.mlp.down_proj.weight", ""), "layer 3 of 'model.layers.'");
}

TEST(FamilyStages, OfStatesAreThoseOfWeights) {
  EXPECT_EQ(stage_of("adam_m.model.layers.10.mlp.up_proj.weight", ""),
            "layer 10 of 'adam_m.model.layers.'");
  EXPECT_EQ(stage_of("adam_m.model.norm.weight"), "last");
}

TEST(FamilyStages, AreUnknownWhereNothingStatesThem) {
  EXPECT_EQ(stage_of("model.score.weight"), "no model map states its stage");
  // The rest of the name is known, but not what stands before it.
  EXPECT_EQ(stage_of("tower.3.self_attn.q_proj.weight"), "no model map states its stage");
  EXPECT_EQ(stage_of("model.layers.3.self_attn.unheard_of"), "no model map states its stage");
}

TEST(FamilyStages, OfTiedEmbeddingsAreBoth) {
  const std::string name = "model.embed_tokens.weight";
  EXPECT_EQ(stage_of(name, kTied), "first last");
  EXPECT_EQ(stage_of(name, kTied, {"lm_head.weight"}), "first");
  EXPECT_EQ(stage_of("net." + name, kTied, {"net.lm_head.weight"}), "first");
  EXPECT_EQ(stage_of("adam_m." + name, kTied), "first last");
  EXPECT_EQ(stage_of(name, kApart), "first");
  EXPECT_EQ(stage_of(name, ""), "no config.json tells whether 'lm_head.weight' is tied to it");
  EXPECT_EQ(stage_of(name, "", {"lm_head.weight"}), "first");
}

TEST(FamilyStages, OfLayersForMultiTokenPredictionDiffer) {
  const std::string config =
      R"({"model_type": "deepseek_v3", "num_hidden_layers": 4, "num_nextn_predict_layers": 1})";
  EXPECT_EQ(stage_of("model.layers.3.input_layernorm.weight", config),
            "layer 3 of 4 of 'model.layers.'");
  EXPECT_THAT(stage_of("model.layers.4.input_layernorm.weight", config),
              HasSubstr("networks differ, says megatron-mtp.toml, line"));
}

TEST(FamilyStages, OfMegatronAreNotThoseOfItsNames) {
  EXPECT_THAT(stage_of("decoder.layers.0.mlp.linear_fc2.weight"),
              HasSubstr("networks differ, says megatron-ranks-llama.toml, line"));
  EXPECT_EQ(stage_of("decoder.layers.0.mlp.router.weight"), "layer 0 of 4 of 'decoder.layers.'");
}

std::string head_rules(const std::string& of_embedding, const std::string& of_alias) {
  return R"(
[[map]]
to = "emb"
from = "e"
)" + of_embedding +
         R"(
[[alias]]
side = "to"
name = "head"
of = "emb"
when = "tied"
)" + of_alias;
}

TEST(FamilyStages, OfAnAliasAreStatedByItself) {
  const auto stage = [](const std::string& of_embedding, const std::string& of_alias,
                        const std::string& config = kTied) {
    const std::vector<modelmap::ModelMap> maps{map_of(head_rules(of_embedding, of_alias))};
    return words_for(stage_in(maps, "emb", config));
  };
  EXPECT_EQ(stage("stage = \"first\"", "stage = \"last\""), "first last");
  EXPECT_EQ(stage("stage = \"last\"", "stage = \"first\""), "first last");
  EXPECT_EQ(stage("stage = \"first\"", "stage = \"every\""), "first every");
  for (const std::string unstated : {"", "stage = \"unknown\""}) {
    EXPECT_THAT(stage("stage = \"first\"", unstated),
                AllOf(HasSubstr("'head' is tied to it"), HasSubstr("map.toml, line 6")));
    EXPECT_EQ(stage("stage = \"first\"", unstated, kApart), "first");
  }
}

TEST(FamilyStages, OfASideAreThoseOfThatSide) {
  const std::vector<modelmap::ModelMap> maps{map_of(R"(
[[block]]
from = "a.{n}."
to = "b.{n}."
stage = { from = "{n}", to = "first" }
[[map]]
from = "@w"
to = "@v"
[[map]]
from = "x.{k}.{p:u|t}"
to = "y.{k}.{p:u|t}"
stage = { to = "{k}" }
)")};
  EXPECT_EQ(words_for(stage_in(maps, "a.2.w")), "layer 2 of 'a.'");
  EXPECT_EQ(words_for(stage_in(maps, "b.2.v")), "first");
  EXPECT_EQ(words_for(stage_in(maps, "y.12.t")), "layer 12 of 'y.'");
  EXPECT_EQ(words_for(stage_in(maps, "x.12.t")), "no model map states its stage");
}

TEST(FamilyStages, MustBeTheSameInAllMapsButThatWhichMakesTheTensor) {
  const std::string rule = "[[map]]\nto = \"w\"\nfrom = \"v\"\nstage = ";
  const std::vector<modelmap::ModelMap> maps{
      map_of({{"one.toml", rule + "\"first\""}}, "one.toml"),
      map_of({{"two.toml", rule + "\"last\""}}, "two.toml"),
      map_of({{"silent.toml", "[[map]]\nto = \"w\"\nfrom = \"v\""}}, "silent.toml")};
  EXPECT_EQ(words_for(stage_in(maps, "w")), "maps state different stages");
  const auto made_by = [&](std::size_t map) {
    return words_for(stage_in(maps, "w", kApart, {}, &maps[map].rules.front().place));
  };
  EXPECT_EQ(made_by(0), "first");
  EXPECT_EQ(made_by(1), "last");
  EXPECT_EQ(made_by(2), "maps state different stages");
}

TEST(StageStatements, RefuseWhatTheyCannotMean) {
  const auto refusal = [](const std::string& stage, const std::string& name = "a.{n}.w") {
    return modelmap::testing::refusal_of([&] {
      map_of("[[map]]\nfrom = \"" + name + "\"\nto = \"" + name + "\"\nstage = " + stage);
    });
  };
  EXPECT_EQ(refusal("\"{n}\""), "accepted");
  EXPECT_EQ(refusal("{ from = \"{n}\", to = \"unknown\" }"), "accepted");
  EXPECT_THAT(refusal("\"middle\""),
              AllOf(HasSubstr("line 4"), HasSubstr("'middle'"), HasSubstr("\"first\"")));
  EXPECT_THAT(refusal("\"{}\""), HasSubstr("'{}'"));
  EXPECT_THAT(refusal("7"), HasSubstr("'stage'"));
  EXPECT_THAT(refusal("{ side = \"first\" }"), HasSubstr("side"));
  EXPECT_THAT(refusal("\"{m}\""), HasSubstr("'{m}', which is not the first capture of 'a.{n}.w'"));
  EXPECT_THAT(refusal("\"{n}\"", "a.{k:x|y}.{n}.w"), HasSubstr("not the first capture"));
  EXPECT_THAT(refusal("\"{n}\"", "a.{n:x|y}.w"), HasSubstr("no plain number"));
}

TEST(StageStatements, OfBlocksAndAliases) {
  const auto refusal = [](const std::string& text) {
    return modelmap::testing::refusal_of([&] { map_of(text); });
  };
  const std::string rule = "[[map]]\nfrom = \"@w\"\nto = \"@w\"\n";
  const std::string block = "[[block]]\nfrom = \"a.{n}.\"\nto = \"a.{n}.\"\nstage = ";
  EXPECT_EQ(refusal(block + "\"{n}\"\n" + rule), "accepted");
  EXPECT_THAT(refusal(block + "\"{m}\"\n" + rule), AllOf(HasSubstr("line 1"), HasSubstr("'{m}'")));
  EXPECT_THAT(
      refusal("[[block]]\nfrom = \"a.{n}.b.{k}.\"\nto = \"a.{n}.b.{k}.\"\nstage = \"{n}\"\n" +
              rule),
      HasSubstr("no other capture"));
  EXPECT_THAT(refusal("[[map]]\nfrom = \"w\"\nto = \"w\"\n[[alias]]\nside = \"to\"\nname = \"v\"\n"
                      "of = \"w\"\nstage = \"{n}\""),
              HasSubstr("line 8"));
}

}  // namespace
}  // namespace reshardfs::family_stages_tests
