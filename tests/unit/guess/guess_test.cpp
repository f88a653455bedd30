// SPDX-License-Identifier: Apache-2.0
/// What is proven of the slices of a set, what is one of several, and what stays open.
#include "guess/guess.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "guess/guess_rules.h"
#include "layout/slicing.h"
#include "strategy/rules/rules_apply.h"
#include "support/our_maps.h"
#include "unit/modelmap/map_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kConfig =
    R"({"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 8,
        "intermediate_size": 96, "vocab_size": 512, "num_hidden_layers": 1})";

const std::string kLayer = "model.layers.0.";

const std::vector<modelmap::ModelMap>& our_maps() {
  static const std::vector<modelmap::ModelMap> maps =
      maps_in(modelmap::testing::repository() / "config/maps");
  return maps;
}

/// A set that layouts make, of tensors whose elements are all different.
class MadeSet {
 public:
  explicit MadeSet(std::int64_t devices) { set_.devices = devices; }

  MadeSet& add(const std::string& name, const Shape& full, const Layout& layout) {
    const Slicing slicing(layout, full);
    SlicedParameter parameter{name, {0}};
    for (std::int64_t device = 0; device < set_.devices; ++device) {
      parameter.slices.shapes.push_back(slicing.slice_shape(device));
      parameter.slices.contents.push_back(static_cast<std::uint32_t>(slicing.cell_of(device)));
    }
    auto& shapes = parameter.slices.shapes;
    if (std::all_of(shapes.begin(), shapes.end(), [&](const auto& s) { return s == shapes[0]; })) {
      shapes.resize(1);
    }
    parameter.slices.blank.resize(static_cast<std::size_t>(set_.devices), false);
    set_.parameters.push_back(std::move(parameter));
    return *this;
  }

  /// All slices become equal, of one value.
  MadeSet& blank_last() {
    DeviceSlices& slices = set_.parameters.back().slices;
    std::fill(slices.contents.begin(), slices.contents.end(), 0);
    slices.blank.assign(slices.blank.size(), true);
    return *this;
  }

  SlicedParameter& last() { return set_.parameters.back(); }
  SlicedSet& set() { return set_; }
  MadeSet& know(std::vector<modelmap::ModelMap> maps) {
    maps_ = std::move(maps);
    return *this;
  }

  Guess guess(const std::optional<std::string>& config = kConfig) const {
    return guess_strategy(
        set_, config ? std::optional(modelmap::ModelConfig::parse(*config)) : std::nullopt, maps_);
  }

 private:
  SlicedSet set_;
  std::vector<modelmap::ModelMap> maps_ = our_maps();
};

Layout layout(std::vector<std::int64_t> matrix, TensorMap map, std::int64_t optimizer = 0) {
  return {.device_matrix = std::move(matrix),
          .tensor_map = std::move(map),
          .optimizer_shard_size = optimizer};
}

/// Tensor parallelism over the last axis of the matrix.
MadeSet dense(const std::vector<std::int64_t>& matrix, std::int64_t optimizer = 0) {
  MadeSet made(matrix.front() * matrix.back());
  made.add(kLayer + "attention.wq.weight", {64, 64}, layout(matrix, {{0}, {}}, optimizer));
  made.add(kLayer + "attention.wo.weight", {64, 64}, layout(matrix, {{}, {0}}, optimizer));
  made.add(kLayer + "feed_forward.w1.weight", {96, 64}, layout(matrix, {{0}, {}}, optimizer));
  made.add(kLayer + "feed_forward.w2.weight", {64, 96}, layout(matrix, {{}, {0}}, optimizer));
  made.add(kLayer + "attention_norm.weight", {64}, layout(matrix, {{}}, optimizer));
  return made;
}

const GuessedParameter& found(const Guess& guess, const std::string& name) {
  return *std::find_if(guess.parameters.begin(), guess.parameters.end(),
                       [&](const auto& parameter) { return parameter.name == name; });
}

TEST(Guess, ProvesTensorAndDataParallelSets) {
  for (const auto& matrix : {std::vector<std::int64_t>{2, 4}, {1, 8}, {8, 1}, {4, 2}}) {
    const Guess guess = dense(matrix).guess();
    EXPECT_EQ(guess.count(Certainty::kProven), 5U) << matrix.front() << " " << matrix.back();
    EXPECT_THAT(guess.doubts, IsEmpty());
    const Reading& read = found(guess, kLayer + "attention.wq.weight").readings.front();
    EXPECT_EQ(read.parts, reading_by(layout(matrix, {{0}, {}}), {64, 64}).parts);
  }
}

TEST(Guess, ProvesNoShapeWithoutAConfiguration) {
  const Guess guess = dense({2, 2}).guess(std::nullopt);
  EXPECT_EQ(guess.count(Certainty::kProven), 0U);
  const GuessedParameter& rows = found(guess, kLayer + "attention.wq.weight");
  EXPECT_EQ(rows.certainty, Certainty::kOneOf);
  // Two parts of either dimension, or four of which pairs are equal; or not parts of anything.
  EXPECT_EQ(rows.readings.size(), 8U);
  EXPECT_EQ(rows.choices(), 9U);
  EXPECT_THAT(rows.other, HasSubstr("each rank's own"));
}

TEST(Guess, ProvesNoOrderOfAxesWithoutANetworkThatShowsIt) {
  // Each of these may be cut over two axes, the minor one first.
  MadeSet rows(4);
  rows.add(kLayer + "attention.wq.weight", {64, 64}, layout({2, 2}, {{0, 1}, {}}));
  MadeSet columns(4);
  columns.add(kLayer + "attention.wo.weight", {64, 64}, layout({2, 2}, {{}, {0, 1}}));
  MadeSet both(4);
  both.add(kLayer + "attention.wq.weight", {64, 64}, layout({2, 2}, {{0}, {1}}));
  for (const MadeSet* made : {&rows, &columns, &both}) {
    const Guess guess = made->guess();
    const GuessedParameter& parameter = guess.parameters.front();
    EXPECT_EQ(parameter.certainty, Certainty::kOneOf);
    EXPECT_EQ(parameter.readings.size(), 2U);
    EXPECT_THAT(parameter.why, HasSubstr("compare one whole tensor"));
  }
}

TEST(Guess, ListsEveryReadingOfWhatIsOneOfSeveral) {
  MadeSet made(4);
  const Layout minor_first = layout({2, 2}, {{0, 1}, {}});
  made.add(kLayer + "attention.wq.weight", {64, 64}, minor_first);
  const Guess guess = made.guess();
  const std::vector<Reading>& readings = guess.parameters.front().readings;
  const Reading truth = reading_by(minor_first, {64, 64});
  EXPECT_TRUE(std::any_of(readings.begin(), readings.end(),
                          [&](const Reading& reading) { return reading.same_boxes(truth); }));
}

TEST(Guess, SaysWhoseCodeExcludesOtherOrders) {
  const Guess guess = dense({2, 4}).guess();
  EXPECT_THAT(found(guess, kLayer + "attention.wo.weight").why,
              HasSubstr("MindFormers' code cuts it along dimension 1 over one axis"));
  // Two parts have one order.
  EXPECT_THAT(found(dense({2, 2}).guess(), kLayer + "attention.wo.weight").why,
              Not(HasSubstr("code")));
}

TEST(Guess, TakesNoNetworksWordForASetThatContradictsIt) {
  MadeSet made = dense({2, 4});
  // No optimizer cuts matrices, so this norm is cut in a way that no such code has.
  made.add("model.norm_out.weight", {64}, layout({4, 2}, {{1}})).blank_last();
  const Guess guess = made.guess();
  EXPECT_NE(found(guess, "model.norm_out.weight").certainty, Certainty::kProven);
  EXPECT_EQ(found(guess, kLayer + "attention.wq.weight").certainty, Certainty::kOneOf);
}

TEST(Guess, StaysOpenWhereMoreLayoutsFitThanCanBeListed) {
  MadeSet made(32);
  made.add("w", {128, 4}, layout({32}, {{0}, {}}));
  const Guess guess = made.guess();
  EXPECT_EQ(guess.parameters.front().certainty, Certainty::kOpen);
  EXPECT_THAT(guess.parameters.front().why, HasSubstr("layouts explain them"));
  EXPECT_THAT(guess.parameters.front().readings, IsEmpty());
}

TEST(Guess, AsksWhetherNormsOfOnesAreWhole) {
  MadeSet made = dense({2, 2});
  made.blank_last();
  const Guess open = made.guess(std::nullopt);
  const GuessedParameter& norm = found(open, kLayer + "attention_norm.weight");
  EXPECT_EQ(norm.certainty, Certainty::kOneOf);
  EXPECT_GT(norm.readings.size(), 2U);
  EXPECT_THAT(norm.why,
              HasSubstr("[hidden] settles it, or narrows it down: give the model's config.json"));
  EXPECT_EQ(found(made.guess(), norm.name).certainty, Certainty::kProven);
}

TEST(Guess, ListsTheAxesThatTensorParallelismMayHave) {
  const Guess guess = dense({2, 4}, -1).guess();
  const GuessedParameter& rows = found(guess, kLayer + "attention.wq.weight");
  EXPECT_EQ(rows.certainty, Certainty::kOneOf);
  ASSERT_EQ(rows.readings.size(), 2U);
  EXPECT_THAT(rows.why, HasSubstr("ranks 0, 1, 2, 3 or of ranks 0, 2, 4, 6"));
  const Reading truth = reading_by(layout({2, 4}, {{0}, {}}, 2), {64, 64});
  EXPECT_TRUE(rows.readings[0].same_boxes(truth) || rows.readings[1].same_boxes(truth));
  // All of them share the norm in the same order.
  EXPECT_EQ(found(guess, kLayer + "attention_norm.weight").certainty, Certainty::kProven);
}

TEST(Guess, ProvesStatesThatTheOptimizerCutsOnceMore) {
  MadeSet made = dense({2, 4});
  made.add("adam_m." + kLayer + "attention.wo.weight", {64, 64}, layout({2, 4}, {{}, {0}}, 2));
  made.add("adam_m." + kLayer + "attention.wq.weight", {64, 64}, layout({2, 4}, {{0}, {}}, 2));
  const Guess guess = made.guess();
  const GuessedParameter& state = found(guess, made.last().name);
  EXPECT_EQ(state.certainty, Certainty::kProven);
  EXPECT_EQ(state.readings.front().parts, reading_by(layout({2, 4}, {{0}, {}}, 2), {64, 64}).parts);
}

TEST(Guess, GivesStatesOfZerosTheLayoutOfTheirWeight) {
  MadeSet made = dense({2, 4});
  made.add("adam_v." + kLayer + "attention.wo.weight", {64, 64}, layout({2, 4}, {{}, {0}}));
  made.blank_last();
  const Guess guess = made.guess();
  EXPECT_EQ(found(guess, made.last().name).certainty, Certainty::kProven);
}

TEST(Guess, GivesBiasesOfZerosTheAxisOfTheMatrices) {
  MadeSet made = dense({2, 4});
  made.add(kLayer + "attention.wq.bias", {64}, layout({2, 4}, {{0}})).blank_last();
  const Guess guess = made.guess();
  const GuessedParameter& bias = found(guess, made.last().name);
  EXPECT_EQ(bias.certainty, Certainty::kProven);
  EXPECT_EQ(bias.readings.front().parts, reading_by(layout({2, 4}, {{0}}), {64}).parts);
}

TEST(Guess, DoesNotProveEqualBiasesOfZerosAlone) {
  MadeSet made(4);
  made.add(kLayer + "attention.wo.weight", {64, 64}, layout({2, 2}, {{}, {0}}));
  made.add(kLayer + "attention.wq.bias", {64}, layout({2, 2}, {{0}})).blank_last();
  EXPECT_EQ(found(made.guess(), made.last().name).certainty, Certainty::kOneOf);
}

TEST(Guess, ProvesNothingOfASetWhereAllIsEqual) {
  MadeSet made(2);
  made.add(kLayer + "attention.wo.weight", {64, 64}, layout({2}, {{}, {0}})).blank_last();
  const Guess guess = made.guess();
  EXPECT_EQ(guess.count(Certainty::kProven), 0U);
  EXPECT_THAT(guess.doubts, ElementsAre(HasSubstr("is it that of another model?")));
}

TEST(Guess, ProvesNothingWithTheConfigurationOfAnotherModel) {
  const std::string other = R"({"hidden_size": 128, "num_attention_heads": 8,
      "num_key_value_heads": 8, "intermediate_size": 96, "vocab_size": 512,
      "num_hidden_layers": 1})";
  const Guess guess = dense({2, 4}).guess(other);
  EXPECT_EQ(guess.count(Certainty::kProven), 0U);
  EXPECT_THAT(guess.doubts, Not(IsEmpty()));
}

TEST(Guess, NoticesThatDifferentPartsAreEqual) {
  // By the configuration the two ranks hold halves; they hold copies.
  MadeSet made(2);
  made.add(kLayer + "feed_forward.w1.weight", {48, 64}, layout({2}, {{}, {}}));
  made.add(kLayer + "attention_norm.weight", {64}, layout({2}, {{}})).blank_last();
  const Guess guess = made.guess();
  EXPECT_EQ(guess.count(Certainty::kProven), 0U);
  EXPECT_THAT(guess.doubts, ElementsAre(HasSubstr("but they hold the same")));
}

TEST(Guess, ProvesNothingIfLayersAreMissing) {
  const std::string more = R"({"hidden_size": 64, "num_attention_heads": 8,
      "num_key_value_heads": 8, "intermediate_size": 96, "num_hidden_layers": 2})";
  const Guess guess = dense({2, 4}).guess(more);
  EXPECT_EQ(guess.count(Certainty::kProven), 0U);
  EXPECT_THAT(guess.doubts, ElementsAre(HasSubstr("2 layers, the set 1")));
}

TEST(Guess, LeavesCopiesThatDifferOpen) {
  MadeSet made = dense({2, 4});
  made.last().slices.contents[3] = 7;
  const Guess guess = made.guess();
  const GuessedParameter& norm = found(guess, made.last().name);
  EXPECT_EQ(norm.certainty, Certainty::kOpen);
  EXPECT_THAT(norm.why, HasSubstr("have copies drifted apart?"));
}

TEST(Guess, LeavesSwappedRanksOpen) {
  MadeSet made = dense({2, 4});
  for (SlicedParameter& parameter : made.set().parameters) {
    std::swap(parameter.slices.contents[0], parameter.slices.contents[5]);
  }
  const Guess guess = made.guess();
  EXPECT_EQ(found(guess, kLayer + "attention.wq.weight").certainty, Certainty::kOpen);
  EXPECT_EQ(found(guess, kLayer + "attention.wo.weight").certainty, Certainty::kOpen);
}

TEST(Guess, DoesNotProveTheOrderOfSeveralAxes) {
  MadeSet made = dense({2, 4});
  // The vocabulary over both axes, the minor one first.
  made.add("lm_head.weight", {512, 64}, layout({2, 4}, {{0, 1}, {}}));
  EXPECT_EQ(found(made.guess(), "lm_head.weight").certainty, Certainty::kOneOf);
}

TEST(Guess, DoesNotProveAPaddedVocabulary) {
  MadeSet made = dense({2, 2});
  made.add("lm_head.weight", {528, 64}, layout({2, 2}, {{0}, {}}));
  const Guess guess = made.guess();
  const GuessedParameter& head = found(guess, "lm_head.weight");
  EXPECT_EQ(head.certainty, Certainty::kOneOf);
  EXPECT_THAT(head.why, HasSubstr("vocabulary of 512 was padded"));
  EXPECT_THAT(guess.doubts, IsEmpty());
}

TEST(Guess, DoesNotProveTwoDimensionalCuts) {
  MadeSet made = dense({2, 4});
  made.add(kLayer + "feed_forward.w3.weight", {96, 64}, layout({2, 4}, {{1}, {0}}));
  EXPECT_NE(found(made.guess(), made.last().name).certainty, Certainty::kProven);
}

TEST(Guess, DoubtsStagesThatSplitLayers) {
  // What a set without redundancy looks like: every rank holds some of each layer's parameters.
  MadeSet made(1);
  made.set().stages = 2;
  made.add(kLayer + "attention.wq.weight", {64, 64}, layout({1}, {{}, {}}));
  made.add(kLayer + "attention.wo.weight", {64, 64}, layout({1}, {{}, {}}));
  made.last().stages = {1};
  const Guess guess = made.guess(std::nullopt);
  EXPECT_EQ(guess.count(Certainty::kProven), 0U);
  EXPECT_THAT(guess.doubts, ElementsAre(HasSubstr("do not hold whole layers")));
}

TEST(Guess, ProvesScalarsAndStagesOfOneRank) {
  MadeSet made(4);
  made.add("beta1_power", {}, layout({4}, {}));
  EXPECT_EQ(made.guess(std::nullopt).count(Certainty::kProven), 1U);
  MadeSet alone(1);
  alone.add("anything", {3, 5}, layout({1}, {{}, {}}));
  EXPECT_EQ(alone.guess(std::nullopt).count(Certainty::kProven), 1U);
}

// --- maps ---------------------------------------------------------------------------------------

constexpr const char* kNewMap = R"(
[sides]
from = "Hugging Face"
to = "Lynx"
[vars]
inner = "intermediate_size"
[[block]]
from = "model.layers.{layer}."
to = "lynx.{layer}."
[[map]]
to = "@qkvo.{w:q|o}"
from = "@self_attn.{w:q|o}_proj.weight"
whole = { q = "[cut heads*head_dim by heads, hidden]", o = "[hidden, cut heads*head_dim by heads]" }
[[map]]
to = "@up"
from = "@mlp.up_proj.weight"
whole = "[cut inner, hidden]"
[[map]]
to = "@down"
from = "@mlp.down_proj.weight"
whole = "[hidden, cut inner]"
)";

MadeSet lynx() {
  MadeSet made(8);
  made.add("lynx.0.qkvo.q", {64, 64}, layout({2, 4}, {{0}, {}}));
  made.add("lynx.0.qkvo.o", {64, 64}, layout({2, 4}, {{}, {0}}));
  made.add("lynx.0.up", {96, 64}, layout({2, 4}, {{0}, {}}));
  made.add("lynx.0.down", {64, 96}, layout({2, 4}, {{}, {0}}));
  return made;
}

TEST(Guess, KnowsTheFamilyOfANewMap) {
  MadeSet made = lynx();
  EXPECT_EQ(made.guess().count(Certainty::kProven), 0U);
  const Guess guess = made.know({modelmap::testing::map_of(kNewMap)}).guess();
  EXPECT_EQ(guess.count(Certainty::kProven), 4U);
  EXPECT_THAT(found(guess, "lynx.0.down").why,
              HasSubstr("Lynx's code cuts it along dimension 1 over one axis"));
}

TEST(Guess, PrefersTheFamilyThatHasMostOfTheNames) {
  // Both families have this name, and the configuration the numbers of both.
  const std::string config = R"({"hidden_size": 64, "num_attention_heads": 8, "head_dim": 16,
      "q_lora_rank": 24, "kv_lora_rank": 12, "qk_nope_head_dim": 6, "qk_rope_head_dim": 2,
      "v_head_dim": 4, "num_hidden_layers": 1})";
  const std::string layer = "decoder.layers.0.self_attention.";
  MadeSet qwen(2);
  qwen.add(layer + "linear_proj.weight", {64, 128}, layout({2}, {{}, {0}}));
  qwen.add(layer + "linear_qkv.weight", {384, 64}, layout({2}, {{0}, {}}));
  MadeSet deepseek(2);
  deepseek.add(layer + "linear_proj.weight", {64, 32}, layout({2}, {{}, {0}}));
  deepseek.add(layer + "linear_q_up_proj.weight", {64, 24}, layout({2}, {{0}, {}}));
  for (const MadeSet* made : {&qwen, &deepseek}) {
    const Guess guess = made->guess(config);
    EXPECT_THAT(guess.doubts, IsEmpty());
    EXPECT_EQ(guess.count(Certainty::kProven), 2U);
  }
}

TEST(Guess, TakesNamesForKnownWhateverStandsBeforeThem) {
  MadeSet made(2);
  made.add("backbone.blocks.3.attention.wq.weight", {64, 64}, layout({2}, {{0}, {}}));
  EXPECT_EQ(made.guess().count(Certainty::kProven), 1U);
}

// --- rules -------------------------------------------------------------------------------------

std::string without_marks(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool rule = line.starts_with("#") && !line.starts_with("# ");
    out += (rule ? line.substr(1) : line) + "\n";
  }
  return out;
}

TEST(GuessRules, StateWhatIsProven) {
  const std::string text = guess_rules(dense({2, 4}).guess(), {"a header"});
  EXPECT_THAT(text, HasSubstr("# a header\n\n[devices]\naxes = [\"dp=2\", \"tp=4\"]\n"));
  EXPECT_THAT(text, HasSubstr("# proven: 1/4 of [64, 64] along dimension 0"));
  EXPECT_THAT(text,
              HasSubstr("match = \"model.layers.0.attention.wo.weight\"\ncut = [\"\", \"tp\"]"));
  EXPECT_THAT(text, Not(HasSubstr("undecided")));
}

TEST(GuessRules, RefuseWhatIsUndecidedUntilItsMarkIsTakenAway) {
  MadeSet made(4);
  made.add(kLayer + "attention.wq.weight", {64, 64}, layout({2, 2}, {{0, 1}, {}}));
  const std::string text = guess_rules(made.guess(), {});
  EXPECT_THAT(text,
              HasSubstr("# one of 2 layouts: slices of [16, 64], 4 different ones on 4 ranks."));
  EXPECT_THAT(text, HasSubstr("parts 0, 1, 2, 3; settled by\n# one whole tensor of the model"));
  EXPECT_THAT(text, HasSubstr("parts 0, 2, 1, 3; settled by\n# one whole tensor of the model"));
  const std::vector<NamedShape> parameters{{kLayer + "attention.wq.weight", {16, 64}}};
  const RulesDocument refusing = read_rules("r.toml", text);
  EXPECT_EQ(undecided_by(refusing, parameters).size(), 1U);
  try {
    apply_rules(refusing, parameters);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("the rule leaves undecided how 'model.layers.0.attention."
                                        "wq.weight' is cut"));
    EXPECT_THAT(error.what(), HasSubstr("line "));
  }
  const RulesDocument decided = read_rules("r.toml", without_marks(text));
  const Strategy strategy = apply_rules(decided, parameters);
  EXPECT_EQ(strategy.stage(0).at(parameters.front().name).tensor_map.front().size(), 2U);
}

TEST(GuessRules, StateByTheOptimizerWhatNeedsOtherAxes) {
  // Norms that the optimizer cuts into three, where tensor parallelism has pairs.
  MadeSet made(6);
  made.add("model.layers.0.attention.wo.weight", {66, 66}, layout({3, 2}, {{}, {0}}));
  made.add("adam_m.model.norm_out.weight", {66}, layout({6}, {{}}, 3));
  Guess guess = made.guess(R"({"hidden_size": 66, "num_attention_heads": 6})");
  EXPECT_EQ(guess.count(Certainty::kProven), 2U);
  fit_into_one_matrix(guess);
  EXPECT_EQ(guess.count(Certainty::kProven), 2U);
  EXPECT_THAT(guess_rules(guess, {}),
              HasSubstr("match = \"adam_m.model.norm_out.weight\"\noptimizer = 3\n"));
}

TEST(GuessRules, KeepUndecidedParametersOutOfTheGlobsOfOthers) {
  MadeSet made(8);
  for (const std::string number : {"0", "1", "2"}) {
    made.add("model.layers." + number + ".attention.wo.weight", {64, 64},
             layout({4, 2}, {{}, {0}}));
  }
  made.last().slices.contents[1] = 9;  // a copy that has drifted
  const std::string three = R"({"hidden_size": 64, "num_attention_heads": 8,
      "num_hidden_layers": 3})";
  const Guess guess = made.guess(three);
  EXPECT_EQ(guess.count(Certainty::kProven), 2U);
  const RulesDocument rules = read_rules("r.toml", guess_rules(guess, {}));
  const std::string drifted = made.last().name;
  EXPECT_EQ(undecided_by(rules, {{drifted, {64, 16}}}).size(), 1U);
  EXPECT_THAT(open_questions(guess), ElementsAre(HasSubstr(drifted)));
}

}  // namespace
}  // namespace reshardfs::testing
