// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_states.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/sources.h"
#include "unit/format/pickle_samples.h"

namespace reshardfs::zero_states_tests {
namespace {

using test::expect_error;
using test::MemorySource;
namespace p = test::pickled;
using Names = std::vector<std::string>;

/// Storages "0" and "1" have two floats each, "2" has one, "3" five.
const p::Storages kStored{
    {"0", "aaaabbbb"}, {"1", "ccccdddd"}, {"2", "step"}, {"3", "eeeeffffgggghhhhiiii"}};
const std::string kPair = p::float_tensor("0", {2});
const std::string kOther = p::float_tensor("1", {2});

template <typename Read>
auto read_with(Read&& read, const std::string& value) {
  const MemorySource source(p::zip_of(value, kStored), "states.pt");
  return read(TorchArchive(source));
}

ZeroModelStates read_model(const p::Pairs& states) {
  return read_with(read_zero_model, p::named(states));
}

ZeroOptimizerStates read_optimizer(const p::Pairs& states) {
  return read_with(read_zero_optimizer, p::named({{"optimizer_state_dict", p::named(states)}}));
}

void expect_no_model(const p::Pairs& states, const std::string& words,
                     ErrorKind kind = ErrorKind::kBadInput) {
  SCOPED_TRACE(words);
  expect_error(kind, {"states.pt", words}, [&] { read_model(states); });
}

void expect_no_optimizer(const p::Pairs& states, const std::string& words,
                         ErrorKind kind = ErrorKind::kBadInput) {
  SCOPED_TRACE(words);
  expect_error(kind, {"states.pt", words}, [&] { read_optimizer(states); });
}

std::string size(const p::Numbers& shape) {
  return p::reduce(p::global("torch", "Size"), p::tuple({p::numbers(shape)}));
}

std::string shapes(const std::vector<std::pair<std::string, p::Numbers>>& all) {
  p::Pairs pairs;
  for (const auto& [name, shape] : all) pairs.emplace_back(p::text(name), size(shape));
  return p::ordered_dict(pairs);
}

Names words_of(const std::vector<ZeroShape>& shapes) {
  Names words;
  for (const ZeroShape& one : shapes) words.push_back(one.name + " " + to_string(one.shape));
  return words;
}

TEST(ZeroModelStates, HaveTheShapesOfEachGroup) {
  const ZeroModelStates states = read_model(
      {{"param_shapes", p::list({shapes({{"b", {2, 3}}, {"a", {}}}), shapes({{"c", {0}}})})}});
  ASSERT_EQ(states.groups.size(), 2U);
  EXPECT_EQ(words_of(states.groups[0]), (Names{"b [2, 3]", "a []"}));
  EXPECT_EQ(words_of(states.groups[1]), (Names{"c [0]"}));
  EXPECT_TRUE(states.frozen.empty());
  EXPECT_TRUE(states.buffers.empty());
  EXPECT_FALSE(states.data_world);
  EXPECT_FALSE(states.model_world);
}

TEST(ZeroModelStates, HaveOneGroupWithoutAList) {
  const ZeroModelStates states = read_model({{"param_shapes", p::named({{"a", p::numbers({4})}})},
                                             {"dp_world_size", p::number(8)},
                                             {"mp_world_size", p::number(2)}});
  ASSERT_EQ(states.groups.size(), 1U);
  EXPECT_EQ(words_of(states.groups[0]), (Names{"a [4]"}));
  EXPECT_EQ(states.data_world, 8);
  EXPECT_EQ(states.model_world, 2);
}

TEST(ZeroModelStates, HaveFrozenParametersBuffersAndAliases) {
  const ZeroModelStates states =
      read_model({{"module", p::named({{"mask", kPair}, {"w", kOther}})},
                  {"buffer_names", p::list({p::text("mask"), p::text("not_saved")})},
                  {"param_shapes", p::list({})},
                  {"frozen_param_shapes", shapes({{"f", {2, 1}}})},
                  {"frozen_param_fragments", p::named({{"f", kOther}})},
                  {"shared_params", p::named({{"head", p::text("embed")}})}});
  EXPECT_EQ(words_of(states.frozen), (Names{"f [2, 1]"}));
  ASSERT_EQ(states.frozen_fragments.size(), 1U);
  EXPECT_EQ(states.frozen_fragments[0].name, "f");
  EXPECT_EQ(states.frozen_fragments[0].shape, (Shape{2}));
  ASSERT_EQ(states.buffers.size(), 1U);
  EXPECT_EQ(states.buffers[0].name, "mask");
  ASSERT_EQ(states.aliases.size(), 1U);
  EXPECT_EQ(states.aliases[0], std::pair(std::string("head"), std::string("embed")));
}

p::Pairs round_robin_run(std::int64_t stage, std::int64_t ranks, const p::Pairs& config = {}) {
  const std::string zero =
      p::named({{"stage", p::number(stage)}, {"round_robin_gradients", p::kTrue}});
  p::Pairs all = config;
  all.emplace_back("zero_optimization", zero);
  return {{"param_shapes", p::list({shapes({{"a", {1}}, {"b", {1}}, {"c", {1}}})})},
          {"dp_world_size", p::number(ranks)},
          {"ds_config", p::named(all)}};
}

TEST(ZeroModelStates, AreDisorderedWhereRoundRobinDealsSeveralParametersToARank) {
  EXPECT_TRUE(read_model(round_robin_run(1, 2)).is_disordered);
  EXPECT_TRUE(read_model(round_robin_run(2, 2)).is_disordered);
  EXPECT_FALSE(read_model(round_robin_run(2, 1)).is_disordered);
  EXPECT_FALSE(read_model(round_robin_run(2, 3)).is_disordered) << "a parameter for each rank";
  EXPECT_FALSE(read_model(round_robin_run(3, 2)).is_disordered);
  const p::Pairs sums_in_float32{{"bf16", p::named({{"enabled", p::kTrue}})},
                                 {"data_types", p::named({{"grad_accum_dtype", p::text("fp32")}})}};
  EXPECT_FALSE(read_model(round_robin_run(1, 2, sums_in_float32)).is_disordered);
  EXPECT_TRUE(read_model(round_robin_run(2, 2, sums_in_float32)).is_disordered);
}

TEST(ZeroModelStates, NameBuffersOfTypesThatCannotBeShown) {
  const std::string complex =
      p::v2_tensor(p::storage("ComplexFloatStorage", "7", 1), {0, {1}, {1}});
  const ZeroModelStates states =
      read_model({{"module", p::named({{"freqs_cis", complex}, {"mask", kPair}})},
                  {"buffer_names", p::list({p::text("freqs_cis"), p::text("mask")})},
                  {"param_shapes", p::list({})}});
  ASSERT_EQ(states.buffers.size(), 1U);
  EXPECT_EQ(states.buffers[0].name, "mask");
  ASSERT_EQ(states.refused_buffers.size(), 1U);
  EXPECT_EQ(states.refused_buffers[0].name, "freqs_cis");
  EXPECT_NE(states.refused_buffers[0].reason.find("ComplexFloatStorage"), std::string::npos);
}

TEST(ZeroModelStates, HaveAliasesAsPairsToo) {
  const ZeroModelStates states = read_model(
      {{"param_shapes", p::list({})},
       {"shared_params",
        p::list({p::tuple({p::text("head"), p::text("embed")}), p::tuple({p::text("other")})})}});
  ASSERT_EQ(states.aliases.size(), 1U);
  EXPECT_EQ(states.aliases[0].first, "head");
}

TEST(ZeroModelStates, AreRefusedIfTheyAreSomethingElse) {
  expect_no_model({{"module", p::named({{"w", kPair}})}}, "has no 'param_shapes'",
                  ErrorKind::kUnsupported);
  expect_error(ErrorKind::kUnsupported, {"states.pt", "has no 'param_shapes'"},
               [] { read_with(read_zero_model, p::list({})); });
  expect_no_model({{"param_shapes", p::list({p::kNone})}}, "no dictionary of the parameters'");
  const auto shape = [](const std::string& value) {
    return p::Pairs{{"param_shapes", p::named({{"w", value}})}};
  };
  expect_no_model(shape(p::kNone), "parameter 'w': its shape should be a tuple");
  expect_no_model(shape(p::numbers({-1})), "its shape should be a number from 0");
  expect_no_model(shape(size({1LL << 62})), "its shape should be a number from 0");
  expect_no_model({{"param_shapes", p::dict({{p::number(1), size({2})}})}},
                  "a parameter whose name is no text");
  const std::string none = p::list({});
  expect_no_model({{"param_shapes", none}, {"frozen_param_fragments", p::named({{"f", "N"}})}},
                  "parameter 'f': it is None");
  expect_no_model({{"param_shapes", none},
                   {"module", p::named({{"b", p::float_tensor("7", {1})}})},
                   {"buffer_names", p::list({p::text("b")})}},
                  "parameter 'b'");
  expect_no_model({{"param_shapes", none}, {"buffer_names", p::list({p::number(1)})}},
                  "whose name is no text");
  expect_no_model({{"param_shapes", none}, {"shared_params", p::named({{"a", "N"}})}},
                  "whose name is no text");
}

p::Pairs stage2(const p::Pairs& more = {}) {
  p::Pairs states{{"single_partition_of_fp32_groups", p::list({kPair, kOther})}};
  states.insert(states.end(), more.begin(), more.end());
  return states;
}

/// The state of the optimizer, by groups.
std::string moments(const p::Pairs& groups) {
  return p::named({{"state", p::dict(groups)}});
}

TEST(ZeroOptimizerStates, HaveFlatGroups) {
  const ZeroOptimizerStates second = read_optimizer(stage2());
  EXPECT_FALSE(second.is_stage3);
  ASSERT_EQ(second.weights.size(), 2U);
  EXPECT_EQ(second.weights[1].storage.length(), 8U);
  EXPECT_TRUE(second.moments.empty());
  EXPECT_TRUE(second.fragments.empty());
  EXPECT_FALSE(second.world);
  const ZeroOptimizerStates third = read_optimizer(
      {{"fp32_flat_groups", p::list({kPair})},
       {"optimizer_state_dict", moments({{p::number(0), p::named({{"exp_avg", kOther}})}})}});
  EXPECT_TRUE(third.is_stage3);
  EXPECT_EQ(third.weights.size(), 1U);
  EXPECT_EQ(third.moments.at("exp_avg").size(), 1U);
}

TEST(ZeroOptimizerStates, HaveTheMomentsOfAllGroups) {
  const std::string step = p::float_tensor("2", {1});
  const ZeroOptimizerStates states = read_optimizer(
      stage2({{"base_optimizer_state",
               moments({{p::number(1), p::named({{"exp_avg", kPair}, {"step", step}, {"lr", "N"}})},
                        {p::number(0), p::named({{"exp_avg", kOther},
                                                 {"exp_avg_sq", kPair},
                                                 {"step", step},
                                                 {"scalar", p::float_tensor("2", {})}})},
                        {p::number(2), p::named({{"exp_avg", step}})},
                        {p::number(-1), p::named({{"exp_avg", step}})},
                        {p::text("x"), p::named({{"exp_avg", step}})}})}}));
  ASSERT_EQ(states.moments.size(), 2U);
  const auto& averages = states.moments.at("exp_avg");
  ASSERT_EQ(averages.size(), 2U);
  EXPECT_EQ(averages.at(0).storage, states.weights[1].storage);  // by the groups, not as they stand
  EXPECT_EQ(averages.at(1).storage, states.weights[0].storage);
  // Groups may have different states.
  ASSERT_EQ(states.moments.at("exp_avg_sq").size(), 1U);
  EXPECT_EQ(states.moments.at("exp_avg_sq").begin()->first, 0U);
}

TEST(ZeroOptimizerStates, AreWithoutThePaddingOfTheirGroup) {
  const std::string long_one = p::float_tensor("3", {5});
  const auto with = [&](const p::Pairs& more) {
    p::Pairs all{
        {"base_optimizer_state", moments({{p::number(0), p::named({{"exp_avg", long_one}})}})}};
    all.insert(all.end(), more.begin(), more.end());
    return stage2(all);
  };
  for (const auto& more : {p::Pairs{}, p::Pairs{{"group_paddings", p::number_list({3, 0})}}}) {
    const ZeroOptimizerStates states = read_optimizer(with(more));
    EXPECT_EQ(states.moments.at("exp_avg").at(0).shape, Shape{2});
    EXPECT_EQ(states.excess, (std::vector<std::int64_t>{3, 0}));
    EXPECT_EQ(states.paddings.has_value(), !more.empty());
  }
  expect_no_optimizer(
      with({{"group_paddings", p::number_list({2, 0})}}),
      "has 'exp_avg' of [5] elements for weights of [2], and group_paddings says 2");
  expect_no_optimizer(with({{"group_paddings", p::number_list({3})}}), "another number of groups");
  expect_no_optimizer(with({{"group_paddings", p::number_list({-1, 0})}}), "no lengths");
}

TEST(ZeroOptimizerStates, MayBeAListWithoutPadding) {
  const auto list = [](const std::string& first, const std::string& second) {
    return stage2({{"group_paddings", p::number_list({3, 1})},
                   {"base_optimizer_state", p::list({first, second})}});
  };
  const ZeroOptimizerStates states =
      read_optimizer(list(p::named({{"exp_avg", kPair}}), p::named({})));
  EXPECT_EQ(states.moments.at("exp_avg").size(), 1U);
  expect_no_optimizer(list(p::named({{"exp_avg", p::float_tensor("3", {5})}}), p::named({})),
                      "has 'exp_avg' of [5] elements");
  expect_no_optimizer(stage2({{"base_optimizer_state", p::text("x")}}), "an unknown form",
                      ErrorKind::kUnsupported);
  EXPECT_FALSE(read_optimizer(stage2()).has_states);
}

TEST(ZeroOptimizerStates, StateTheirWorldAndFragments) {
  const auto address = [](std::int64_t count, std::int64_t start) {
    return p::build(p::new_object(p::global("deepspeed.utils.tensor_fragment", "fragment_address")),
                    p::named({{"start", p::number(start)}, {"numel", p::number(count)}}));
  };
  const std::string as_tuple = p::new_object(
      p::global("deepspeed.utils.tensor_fragment", "fragment_address"), p::numbers({1, 7}));
  const ZeroOptimizerStates states = read_optimizer(
      stage2({{"partition_count", p::number_list({2, 4, 3})},
              {"param_slice_mappings",
               p::list({p::ordered_dict({{p::text("a"), address(2, 0)}, {p::text("b"), as_tuple}}),
                        p::ordered_dict()})}}));
  EXPECT_EQ(states.world, 4);
  ASSERT_EQ(states.fragments.size(), 2U);
  EXPECT_EQ(states.fragments[0].at("a"), (ZeroFragment{2, 0}));
  EXPECT_EQ(states.fragments[0].at("b"), (ZeroFragment{1, 7}));
  EXPECT_TRUE(states.fragments[1].empty());
  EXPECT_EQ(read_optimizer(stage2({{"partition_count", p::number(5)}})).world, 5);
}

TEST(ZeroOptimizerStates, AreRefusedIfTheyAreSomethingElse) {
  expect_no_optimizer({{"state", p::named({})}}, "no flat groups of float32",
                      ErrorKind::kUnsupported);
  expect_no_optimizer({{"single_partition_of_fp32_groups", kPair}}, "no flat groups of float32",
                      ErrorKind::kUnsupported);
  expect_error(ErrorKind::kUnsupported, {"states.pt", "no flat groups"},
               [] { read_with(read_zero_optimizer, p::kNone); });
  const auto with_group = [](const std::string& group) {
    return p::Pairs{{"single_partition_of_fp32_groups", p::list({group})}};
  };
  expect_no_optimizer(with_group(p::kNone), "it is None");
  expect_no_optimizer({{"single_partition_of_fp32_groups", p::list({})}}, "an empty list");
  expect_no_optimizer({{"fp32_flat_groups", p::list({})}}, "an empty list");
  expect_no_optimizer(with_group(p::float_tensor("0", {1, 2})), "not one row of elements");
  expect_no_optimizer(with_group(p::v2_tensor(p::storage("FloatStorage", "0", 2), {0, {2}, {0}})),
                      "not one row of elements");
  const std::string other_length = p::float_tensor("2", {1});
  expect_no_optimizer(stage2({{"base_optimizer_state",
                               moments({{p::number(0), p::named({{"exp_avg", other_length}})}})}}),
                      "has 'exp_avg' of [1] elements for weights of [2]");
  const auto with_address = [](const std::string& address) {
    return stage2({{"param_slice_mappings", p::list({p::named({{"a", address}})})}});
  };
  expect_no_optimizer(with_address(p::kNone), "does not state where a parameter's part is");
  expect_no_optimizer(with_address(p::new_object(p::global("m", "A"), p::numbers({1}))),
                      "does not state where a parameter's part is");
}

}  // namespace
}  // namespace reshardfs::zero_states_tests
