// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategy_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::HasSubstr;

Layout layout_of(std::vector<std::int64_t> matrix, TensorMap map) {
  Layout layout;
  layout.device_matrix = std::move(matrix);
  layout.tensor_map = std::move(map);
  return layout;
}

Strategy one(const Layout& layout) {
  return {{{{"w", layout}}}, 0, false};
}

void expect_round_trips(const Strategy& strategy) {
  for (const Strategy& read :
       {load_bytes(to_protobuf(strategy), "s.ckpt"), load_bytes(to_json(strategy), "s.json")}) {
    EXPECT_EQ(without_shapes(stages_of(read)), without_shapes(stages_of(strategy)));
    EXPECT_EQ(read.first_stage(), strategy.first_stage());
    EXPECT_EQ(read.devices_per_stage(), strategy.devices_per_stage());
  }
}

TEST(Writers, RoundTripEveryField) {
  Layout layout = layout_of({2, 4}, {{1}, {}});
  layout.optimizer_shard_size = -1;
  layout.optimizer_shard_step = 1;
  layout.field = 7;
  layout.param_split_shape = {{1, 2}, {3}};
  layout.indices_offset = {{-5}};
  const Strategy strategy({{{"w", layout}}}, 0, false, {{"op", 0, {{1, 2}, {}}}});
  expect_round_trips(strategy);
  EXPECT_EQ(load_bytes(to_protobuf(strategy)).operators(), strategy.operators());
  EXPECT_EQ(load_bytes(to_json(strategy), "s.json").operators(), strategy.operators());
}

TEST(Writers, RoundTripTensorMapsOfEveryForm) {
  for (const TensorMap& map : {TensorMap{}, TensorMap{{}}, TensorMap{{0}}, TensorMap{{1, 0}},
                               TensorMap{{}, {}}, TensorMap{{1, 0}, {}}, TensorMap{{}, {0, 2}},
                               TensorMap{{2}, {1}, {0}}, TensorMap{{2, 1, 0}}}) {
    expect_round_trips(one(layout_of({2, 2, 2}, map)));
  }
}

TEST(Writers, WriteAFlatMapInOneMessage) {
  EXPECT_EQ(to_protobuf(one(layout_of({2, 2}, {{0}, {}}))),
            current_stage() + layout_item("w", {{{2, 2}}, {{0, -1}}}));
  EXPECT_EQ(to_protobuf(one(layout_of({2, 2}, {}))),
            current_stage() + layout_item("w", {{{2, 2}}, {{}}}));
}

TEST(Writers, WriteANestedMapInAMessageForEachDimension) {
  EXPECT_EQ(to_protobuf(one(layout_of({2, 2}, {{1, 0}, {}}))),
            current_stage() + layout_item("w", {{{2, 2}}, {{1, 0}, {-1}}}));
  EXPECT_EQ(to_protobuf(one(layout_of({2, 2}, {{1, 0}}))),
            current_stage() + layout_item("w", {{{2, 2}}, {{1, 0}, {}}}));
  EXPECT_THAT(to_json(one(layout_of({2, 2}, {{1, 0}, {}}))),
              HasSubstr("\"tensor_map\":[[1,0],[-1]]"));
}

TEST(Writers, PutTheStageBeforeTheNamesOfSeveralStages) {
  const Layout layout = layout_of({2}, {{0}});
  const Strategy strategy({{{"a", layout}}, {{"a", layout}, {"b", layout}}}, 0, false);
  const Strategy read = load_bytes(to_protobuf(strategy));
  EXPECT_TRUE(read.stage_prefixed());
  EXPECT_EQ(stages_of(read), stages_of(strategy));
  EXPECT_THAT(to_protobuf(strategy), HasSubstr("1-b"));
  EXPECT_THAT(to_json(strategy), HasSubstr("{\"0-a\": {\"dev_matrix\": [2], \"field\": 0, "));
  expect_round_trips(strategy);
  expect_round_trips(Strategy({{{"a", layout}}}, 0, true));
}

TEST(Writers, KeepTheStageOfOneStageWithoutOperators) {
  const Strategy strategy({{{"w", layout_of({2}, {{0}})}}}, 3, false);
  expect_round_trips(strategy);
}

TEST(Writers, GiveAnOptimizerShardTheStepThatMakesItCount) {
  const auto step = [](std::vector<std::int64_t> matrix, TensorMap map) {
    Layout layout = layout_of(std::move(matrix), std::move(map));
    layout.optimizer_shard_size = -1;
    const Layout read = load_bytes(to_protobuf(one(layout))).stage(0).at("w");
    EXPECT_EQ(read.optimizer_shard_size, -1);
    return read.optimizer_shard_step;
  };
  EXPECT_EQ(step({2, 4}, {{0}}), 4);
  EXPECT_EQ(step({4, 2}, {{0}}), 2);
  EXPECT_EQ(step({8}, {{}}), 1);
  EXPECT_EQ(step({2, 2, 2}, {{1}}), 1);  // devices 0, 1, 4, 5: (5 - 0) / 3
  EXPECT_EQ(step({2}, {{0}}), 1);        // nobody else holds the slice, but it must not be 0
}

TEST(Writers, WriteOneDeviceWithoutAMatrixAsOneDevice) {
  EXPECT_EQ(load_bytes(to_protobuf(one(layout_of({}, {{}})))).devices_per_stage(), 1);
  EXPECT_EQ(load_bytes(to_json(one(layout_of({}, {{}}))), "s.json").devices_per_stage(), 1);
}

TEST(Writers, JsonIsPureAscii) {
  const Strategy strategy({{{"\xc3\xa9\"\\\n\x7f", layout_of({2}, {{0}})}}}, 0, false);
  EXPECT_THAT(to_json(strategy), HasSubstr(R"("\u00e9\"\\\n\u007f":)"));
  expect_round_trips(strategy);
}

TEST(Writers, JsonRefusesNamesThatAreNotUtf8) {
  const Strategy strategy({{{"\xff", layout_of({2}, {{0}})}}}, 0, false);
  EXPECT_EQ(stages_of(load_bytes(to_protobuf(strategy))), stages_of(strategy));
  try {
    to_json(strategy);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("'\\xff'"));
  }
}

TEST(Writers, JsonKeepsTheFirstOfEqualOperators) {
  const Layout layout = layout_of({2}, {{0}});
  const Strategy strategy({{{"a", layout}}, {{"b", layout}}}, 0, true,
                          {{"op", 0, {{1}}}, {"op", 1, {{2}}}});
  EXPECT_EQ(load_bytes(to_json(strategy), "s.json").operators(),
            (std::vector<OperatorStrategy>{{"op", 0, {{1}}}}));
  EXPECT_EQ(load_bytes(to_protobuf(strategy)).operators(), strategy.operators());
}

}  // namespace
}  // namespace reshardfs::testing
