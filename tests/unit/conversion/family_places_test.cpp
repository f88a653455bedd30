// SPDX-License-Identifier: Apache-2.0
#include "conversion/family_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "modelmap/model_map.h"

namespace reshardfs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kMap = R"(
[counts]
n = "layers"
[[block]]
from = "m.{n}."
to = "m.{n}."
stage = "{n}"
[[map]]
from = "@w"
to = "@w"
[[map]]
from = "emb"
to = "emb"
stage = "first"
[[map]]
from = "all"
to = "all"
stage = "every"
[[map]]
from = "head"
to = "head"
stage = "last"
)";

const std::string kPlan = [] {
  std::string text = "text = [\"\"";
  for (int i = 0; i < 100; ++i) text += ", \"e" + std::to_string(i) + ".\"";
  return text + R"(]
embeddings = ["embed"]
heads = ["head"]
last = ["norm"]
inside = ["norm"]
beside = []
[[plan]]
types = ["small"]
rows = ["layers.{layer}.w"]
)";
}();

class Places : public ::testing::Test {
 protected:
  PlacedTensors place(const std::vector<std::string>& names, std::int64_t stages,
                      const StageLayers& wanted = {}, const std::string& config = "") {
    std::vector<FamilyTensor> tensors;
    for (const std::string& name : names) {
      // Of "-name" only the name counts.
      const bool is_shown = name[0] != '-';
      tensors.push_back({name.substr(is_shown ? 0 : 1), name, {2, 2}, nullptr, is_shown});
    }
    const FamilyStages family(
        maps_, config.empty() ? modelmap::ModelConfig() : modelmap::ModelConfig::parse(config));
    return place_tensors({family}, tensors, stages, wanted, {"my."});
  }

  std::string refusal(const std::vector<std::string>& names, std::int64_t stages,
                      const std::string& config = "") {
    try {
      place(names, stages, {}, config);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

 private:
  std::vector<modelmap::ModelMap> maps_{
      modelmap::load_model_map("map.toml", [](const auto&) { return std::string(kMap); })};
};

TEST_F(Places, OfLayersAndOfTheRest) {
  const std::vector<std::string> names{"emb",      "m.0.w", "m.1.w", "adam_m.m.1.w",
                                       "my.m.0.w", "all",   "head"};
  EXPECT_THAT(place(names, 2).stages,
              ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(1), ElementsAre(1),
                          ElementsAre(0), ElementsAre(0, 1), ElementsAre(1)));
  EXPECT_THAT(place(names, 3, {1, 1, 0}).stages,
              ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(1), ElementsAre(1),
                          ElementsAre(0), ElementsAre(0, 1, 2), ElementsAre(2)));
}

TEST_F(Places, OfAllLayersWhateverIsShown) {
  const std::vector<std::string> names{"m.0.w", "m.1.w", "-m.2.w", "-m.3.w", "-what"};
  EXPECT_THAT(place(names, 2).stages[1], ElementsAre(0));
  EXPECT_THAT(place({"m.0.w", "m.1.w"}, 2, {}, R"({"num_hidden_layers": 4})").stages[1],
              ElementsAre(0));
}

TEST_F(Places, AreToldWhereNothingStatesThem) {
  const PlacedTensors placed = place({"m.0.w", "what", "-that"}, 2);
  ASSERT_EQ(placed.unknown.size(), 1U);
  EXPECT_THAT(placed.unknown.begin()->second, ElementsAre("what"));
  EXPECT_THAT(placed.stages, IsEmpty());
}

// Of a million tensors, each may be one of the first stage.
TEST_F(Places, OfAPlanLookForTheHeadOnce) {
  const auto plan = read_tensor_plan("tp.toml", kPlan, {"small"});
  std::vector<FamilyTensor> tensors;
  for (int i = 0; i < 100; ++i) {
    const std::string name = "e" + std::to_string(i) + ".embed.weight";
    tensors.push_back({name, name, {2, 2}, nullptr, true});
  }
  const std::vector<modelmap::ModelMap> no_maps;
  const FamilyStages none(no_maps, modelmap::ModelConfig());
  std::size_t looked_at = 0;
  PlaceSource source{none, &*plan, true, 1, [&](const std::string& name) {
                       ++looked_at;
                       return plan->is_head(name);
                     }};
  tensors.push_back({"layers.0.w.weight", "layers.0.w.weight", {2, 2}, nullptr, true});
  const auto tied = place_tensors(source, tensors, 2, {0, 1}, {});
  EXPECT_EQ(looked_at, tensors.size());
  EXPECT_THAT(tied.stages.front(), ElementsAre(0, 1));
  EXPECT_THAT(tied.stages.back(), ElementsAre(1));
  tensors.push_back({"head.weight", "head.weight", {2, 2}, nullptr, true});
  looked_at = 0;
  EXPECT_THAT(place_tensors(source, tensors, 2, {0, 1}, {}).stages.front(), ElementsAre(0));
  EXPECT_EQ(looked_at, tensors.size());
}

TEST_F(Places, NeedTheNumberOfLayers) {
  EXPECT_THAT(refusal({"m.0.w", "m.2.w"}, 2), AllOf(HasSubstr("layer 2"), HasSubstr("2 layers")));
  EXPECT_THAT(refusal({"m.1.w"}, 1), HasSubstr("--model-config"));
  EXPECT_THAT(refusal({"m.4.w"}, 2, R"({"num_hidden_layers": 4})"),
              AllOf(HasSubstr("'m.4.w'"), HasSubstr("layer 4"), HasSubstr("4 layers")));
  EXPECT_THAT(refusal({"emb", "head"}, 2), HasSubstr("no parameter is of a layer"));
  EXPECT_THAT(refusal({"m.0.w", "v.m.0.w"}, 1), AllOf(HasSubstr("'m.'"), HasSubstr("'v.m.'")));
}

}  // namespace
}  // namespace reshardfs
