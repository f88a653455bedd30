// SPDX-License-Identifier: Apache-2.0
/// Assertions of rules and of maps, and those of the installed ones.
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"

namespace reshardfs::modelmap::testing::requirement_tests {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Direction kForward = Direction::kForward;
constexpr Direction kInverse = Direction::kInverse;

SourceTensor tensor(const std::string& name, const Shape& shape) {
  return {name, DType::kFloat32, shape};
}

std::vector<std::string> problems(const ModelMap& map, const std::vector<SourceTensor>& tensors,
                                  const MapOptions& options) {
  std::vector<std::string> messages;
  for (const auto& problem : check_mapping(map, tensors, options).problems) {
    messages.push_back(problem.error().what());
  }
  return messages;
}

std::vector<std::string> problems(const std::string& map, Direction direction, const Shape& shape,
                                  const std::map<std::string, std::int64_t>& variables = {}) {
  MapOptions options;
  options.direction = direction;
  options.variables = variables;
  return problems(map_of(map), {tensor(direction == kForward ? "a" : "c", shape)}, options);
}

constexpr const char* kRule =
    "[[map]]\nto = 'c'\nfrom = 'a'\nshape = '[F]'\n"
    "ops = ['reshape [-1]']\nto_shape = '[F]'\n";

TEST(Requirement, IsCheckedWithVariablesAndWhatShapesBind) {
  const std::string map = std::string(kRule) + "require = 'F % parts == 0 and parts > 1'\n";
  EXPECT_THAT(problems(map, kForward, {6}, {{"parts", 3}}), IsEmpty());
  EXPECT_THAT(problems(map, kInverse, {6}, {{"parts", 3}}), IsEmpty());
  for (const Direction direction : {kForward, kInverse}) {
    EXPECT_THAT(problems(map, direction, {6}, {{"parts", 4}}),
                ElementsAre(AllOf(HasSubstr("c: the rule requires 'F % parts == 0"),
                                  HasSubstr("F is 6, parts is 4"), HasSubstr("line 1"))));
  }
}

TEST(Requirement, HasWordsForTheUser) {
  const std::string words = "{ that = 'n == 2', say = 'give --map-var n=2' }";
  for (const std::string& require : {words, "[" + words + "]", "['1', " + words + "]"}) {
    const std::string map = kRule + ("require = " + require) + "\n";
    EXPECT_THAT(problems(map, kForward, {6}, {{"n", 2}}), IsEmpty());
    EXPECT_THAT(problems(map, kForward, {6}, {{"n", 3}}),
                ElementsAre(HasSubstr("c: give --map-var n=2 (the rule requires 'n == 2', and n is "
                                      "3)")));
  }
}

TEST(Requirement, RefusesWhatIsUnknown) {
  const std::string map = kRule + std::string("require = { that = 'n == 2', say = 'which n?' }\n");
  EXPECT_THAT(
      problems(map, kForward, {6}),
      ElementsAre(AllOf(HasSubstr("which n?"), HasSubstr("c: unknown variable 'n': which n?"))));
  // Words about something else are no help.
  EXPECT_THAT(
      problems(kRule + std::string("require = { that = 'n == 2', say = 'uneven' }\n"), kForward,
               {6}),
      ElementsAre(AllOf(HasSubstr("c: unknown variable 'n'; --model-config or --map-var"),
                        HasSubstr("the rule requires 'n == 2'"), Not(HasSubstr("uneven")))));
  // What does not matter need not be known.
  EXPECT_THAT(problems(kRule + std::string("require = 'F == 6 or n == 2'\n"), kForward, {6}),
              IsEmpty());
}

TEST(Requirement, OfAMapIsOneOfEachRuleAndIsInherited) {
  const std::string base = std::string("require = 'n == 2'\n") + kRule;
  MapOptions options;
  options.direction = kForward;
  options.variables = {{"n", 3}, {"m", 3}};
  const ModelMap map = map_of({{"map.toml",
                                "extends = 'base.toml'\nrequire = 'm == 3'\n"
                                "[[map]]\nto = 'd'\nfrom = 'b'\n"},
                               {"base.toml", base}});
  EXPECT_THAT(problems(map, {tensor("a", {6}), tensor("b", {6})}, options),
              ElementsAre(HasSubstr("c: the rule requires 'n == 2'"),
                          HasSubstr("d: the rule requires 'n == 2'")));
}

TEST(Requirement, IsRefusedIfItIsNone) {
  const auto refusal = [](const std::string& require) {
    return refusal_of([&] { map_of(kRule + ("require = " + require) + "\n"); });
  };
  EXPECT_THAT(refusal("3"), HasSubstr("line 7"));
  EXPECT_THAT(refusal("[3]"), HasSubstr("'require'"));
  EXPECT_THAT(refusal("''"), Not(HasSubstr("accepted")));
  EXPECT_THAT(refusal("'n =='"), HasSubstr("wrong expression"));
  EXPECT_THAT(refusal("{ say = 'x' }"), HasSubstr("that"));
  EXPECT_THAT(refusal("{ that = '1', also = 'x' }"), HasSubstr("'also'"));
}

TEST(Requirement, IsNotAskedForShapesAlone) {
  MapOptions options;
  options.direction = kForward;
  options.shapes_alone = true;
  EXPECT_THAT(problems(map_of(kRule + std::string("require = '0'\n")), {tensor("a", {6})}, options),
              IsEmpty());
}

/// Query, key and value of one layer, cut for ranks.
class KeyHeads : public ::testing::Test {
 protected:
  static constexpr std::int64_t kHead = 2;

  void set(std::int64_t heads, std::int64_t groups, std::int64_t tp) {
    options_.config =
        ModelConfig::parse("{\"num_attention_heads\": " + std::to_string(heads) +
                           ", \"num_key_value_heads\": " + std::to_string(groups) +
                           ", \"head_dim\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 8}");
    options_.direction = kForward;
    options_.variables = {{"vocab_multiple", 1}};
    options_.to_parts = [tp](const std::string&) {
      return Known<std::int64_t>::stated(tp, "test");
    };
    const auto rows = [](std::int64_t count) { return Shape{count * kHead, 4}; };
    const std::string layer = "model.layers.0.self_attn.";
    hub_ = {{layer + "q_proj.weight", rows(heads)},
            {layer + "k_proj.weight", rows(groups)},
            {layer + "v_proj.weight", rows(groups)},
            {layer + "o_proj.weight", {4, heads * kHead}},
            {"model.layers.0.mlp.gate_proj.weight", {8, 4}},
            {"model.layers.0.mlp.up_proj.weight", {8, 4}},
            {"model.layers.0.mlp.down_proj.weight", {4, 8}},
            {"model.layers.0.input_layernorm.weight", {4}},
            {"model.layers.0.post_attention_layernorm.weight", {4}},
            {"model.norm.weight", {4}},
            {"model.embed_tokens.weight", {8, 4}},
            {"lm_head.weight", {8, 4}}};
  }

  /// Elements are their numbers.
  MemoryModel model() const {
    MemoryModel model;
    std::int32_t number = 0;
    for (const auto& [name, shape] : hub_) {
      MemoryTensor& made = model[name];
      made.dtype = DType::kInt32;
      made.shape = shape;
      made.bytes.resize(static_cast<std::size_t>(element_count(shape)) * sizeof number);
      for (std::size_t at = 0; at < made.bytes.size(); at += sizeof number, ++number) {
        std::memcpy(made.bytes.data() + at, &number, sizeof number);
      }
    }
    return model;
  }

  std::vector<std::string> problems_of() const {
    std::vector<SourceTensor> tensors;
    for (const auto& [name, shape] : hub_) tensors.push_back(tensor(name, shape));
    return problems(map_, tensors, options_);
  }

  /// The rows of a head.
  static Bytes head(const MemoryTensor& tensor, std::int64_t number) {
    const std::size_t size = static_cast<std::size_t>(kHead * tensor.shape[1]) * 4;
    const auto begin = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(size) * number;
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  }

  ModelMap map_ = installed_map("megatron-ranks-llama");
  MapOptions options_{};
  std::map<std::string, Shape> hub_{};
};

TEST_F(KeyHeads, AreRefusedIfTheyAreFewerThanRanks) {
  set(8, 2, 4);
  EXPECT_THAT(
      problems_of(),
      ElementsAre(AllOf(HasSubstr("decoder.layers.0.self_attention.linear_qkv.weight: "),
                        HasSubstr("fewer key heads than ranks"), HasSubstr("--map-var kv_repeat=1"),
                        HasSubstr("groups is 2"), HasSubstr("tp is 4"))));
  set(8, 2, 2);
  EXPECT_THAT(problems_of(), IsEmpty());
  set(12, 6, 4);
  options_.variables["kv_repeat"] = 1;
  EXPECT_THAT(problems_of(), ElementsAre(HasSubstr("divides the other")));
}

TEST_F(KeyHeads, MustBeSharedOutEvenly) {
  set(6, 4, 2);
  EXPECT_THAT(problems_of(), ElementsAre(HasSubstr("shared out evenly to the key heads")));
  set(6, 2, 4);
  EXPECT_THAT(problems_of(),
              ElementsAre(HasSubstr("linear_qkv.weight: the query heads cannot be shared out "),
                          HasSubstr("linear_proj.weight: the query heads cannot be shared out")));
  set(8, 2, 2);
  options_.variables["tp"] = 16;
  EXPECT_THAT(problems_of(), ::testing::Contains(HasSubstr("fc1.weight: the rows of gate and up")));
}

TEST_F(KeyHeads, AreRepeatedForRanksOfTheirQueryHeads) {
  set(8, 2, 4);
  options_.variables["kv_repeat"] = 2;
  const MemoryModel hub = model();
  const MemoryModel ranks = mapped(map_, hub, options_);
  const MemoryTensor& fused = ranks.at("decoder.layers.0.self_attention.linear_qkv.weight");
  EXPECT_EQ(fused.shape, (Shape{(8 + 2 * 4) * kHead, 4}));
  const auto source = [&](char which) {
    return hub.at("model.layers.0.self_attn." + std::string(1, which) + "_proj.weight");
  };
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(head(fused, 4 * rank), head(source('q'), 2 * rank)) << rank;
    EXPECT_EQ(head(fused, 4 * rank + 1), head(source('q'), 2 * rank + 1)) << rank;
    EXPECT_EQ(head(fused, 4 * rank + 2), head(source('k'), rank / 2)) << rank;
    EXPECT_EQ(head(fused, 4 * rank + 3), head(source('v'), rank / 2)) << rank;
  }
  options_.direction = kInverse;
  EXPECT_TRUE(mapped(map_, ranks, options_) == hub);
  // Without the word it is told in this direction, too.
  options_.variables.erase("kv_repeat");
  EXPECT_THAT(problems(map_, tensors_of(ranks), options_),
              ::testing::Contains(AllOf(HasSubstr("linear_qkv.weight"), HasSubstr("kv_repeat"))));
  for (const std::int64_t wrong : {3, 4}) {
    set(8, 2, 4);
    options_.variables["kv_repeat"] = wrong;
    EXPECT_THAT(problems_of(), ElementsAre(HasSubstr("kv_repeat must be 1, or")));
  }
}

TEST_F(KeyHeads, MayBeCutAnywhereIfThatIsSaid) {
  set(8, 2, 4);
  options_.variables["kv_repeat"] = 1;
  const MemoryModel ranks = mapped(map_, model(), options_);
  EXPECT_EQ(ranks.at("decoder.layers.0.self_attention.linear_qkv.weight").shape,
            (Shape{(8 + 2 * 2) * kHead, 4}));
}

}  // namespace
}  // namespace reshardfs::modelmap::testing::requirement_tests
