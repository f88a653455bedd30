// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategy_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string layout_refusal(const LayoutMessages& messages) {
  return refusal(current_stage() + layout_item("net.w", messages));
}

TEST(ProtobufStrategy, ReadsOneStage) {
  const Strategy strategy =
      load_bytes(current_stage() + operator_item("MatMul-op0", 0) +
                 layout_item("a", {{{2, 4}}, {{1, 0}}, 3, -1}) + layout_item("b", {{{8}}, {{-1}}}));
  EXPECT_EQ(strategy.stage_count(), 1);
  EXPECT_EQ(strategy.devices_per_stage(), 8);
  EXPECT_EQ(strategy.rank_count(), 8);
  EXPECT_EQ(strategy.first_stage(), 0);
  EXPECT_FALSE(strategy.stage_prefixed());
  const Layout& a = strategy.stage(0).at("a");
  EXPECT_EQ(a.device_matrix, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(a.tensor_map, (TensorMap{{1}, {0}}));
  EXPECT_EQ(a.optimizer_shard_step, 3);
  EXPECT_EQ(a.optimizer_shard_size, -1);
  EXPECT_EQ(strategy.stage(0).at("b").tensor_map, (TensorMap{{}}));
  EXPECT_EQ(strategy.operators(), (std::vector<OperatorStrategy>{{"MatMul-op0", 0, {{1, 1}}}}));
}

// A bit of a key that is wrong makes a layout an unknown field, which would be passed over.
TEST(ProtobufStrategy, RefusesALayoutInAFieldWhereNoneCanBe) {
  const std::string good = current_stage() + layout_item("a", {{{2}}, {{0}}});
  const std::string item = layout_item("b", {{{2}}, {{0}}});
  const std::string payload = item.substr(2);  // without key and length
  ASSERT_EQ(bytes_field(3, payload), item);
  for (const int field : {1, 7, 11, 35, 1000}) {
    EXPECT_THAT(refusal(good + bytes_field(field, payload)), HasSubstr("a layout appears"));
    EXPECT_EQ(load_bytes(good + bytes_field(field == 35 ? 36 : field, "abc")).stage(0).size(), 1U);
  }
  EXPECT_THAT(refusal(good + bytes_field(19, "0123456789")), HasSubstr("a layout appears"));
  // The layouts of an item, taken for an operator's strategy.
  const std::string layouts = payload.substr(payload.find('b') + 3);
  EXPECT_THAT(refusal(good + bytes_field(2, layouts)), HasSubstr("a layout appears"));
}

TEST(ProtobufStrategy, ReadsNestedTensorMaps) {
  EXPECT_EQ(load_layout({{{2, 2, 2}}, {{1, 0}, {-1}}}).tensor_map, (TensorMap{{1, 0}, {}}));
  EXPECT_EQ(load_layout({{{2, 2, 2}}, {{0, 2}, {1}}}).tensor_map, (TensorMap{{0, 2}, {1}}));
}

TEST(ProtobufStrategy, AnEmptyMessageMarksANestedMapOfOneDimension) {
  EXPECT_EQ(load_layout({{{2, 2}}, {{1, 0}, {}}}).tensor_map, (TensorMap{{1, 0}}));
  EXPECT_EQ(load_layout({{{2, 2}}, {{-1}, {}}}).tensor_map, (TensorMap{{}}));
  EXPECT_EQ(load_layout({{{2, 2}}, {{1, 0}}}).tensor_map, (TensorMap{{1}, {0}}));
}

TEST(ProtobufStrategy, AMapWithoutEntriesIsThatOfAScalar) {
  EXPECT_EQ(load_layout({{{2}}, {}}).tensor_map, TensorMap{});
  EXPECT_EQ(load_layout({{{2}}, {{}}}).tensor_map, TensorMap{});
  EXPECT_EQ(load_layout({{{2}}, {{}, {}}}).tensor_map, TensorMap{});
}

TEST(ProtobufStrategy, AcceptsPackedNumbers) {
  const std::string packed = bytes_field(1, std::string("\x02\x04"));
  const std::string map = bytes_field(1, std::string("\x01") + varint(~std::uint64_t{0}));
  const std::string layout = bytes_field(1, packed) + bytes_field(2, map) + number_field(5, 0) +
                             number_field(6, 0) + number_field(7, 0);
  const Strategy strategy =
      load_bytes(current_stage() + bytes_field(3, bytes_field(1, "w") + bytes_field(2, layout)));
  EXPECT_EQ(strategy.stage(0).at("w").device_matrix, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(strategy.stage(0).at("w").tensor_map, (TensorMap{{1}, {}}));
}

TEST(ProtobufStrategy, SkipsUnknownFields) {
  const std::string unknown = number_field(17, 5) + bytes_field(18, "text");
  const Strategy strategy = load_bytes(unknown + simple_file("w", 0, 2) + unknown);
  EXPECT_EQ(strategy.devices_per_stage(), 2);
}

TEST(ProtobufStrategy, KeepsManualSplits) {
  LayoutMessages messages{{{4}}, {{0, -1}}};
  messages.param_split_shape = {{3, 9, 1, 7}};
  messages.indices_offset = {{0, 1}, {2}};
  messages.field = 4;
  const Layout layout = load_layout(messages);
  EXPECT_EQ(layout.param_split_shape, (Lists{{3, 9, 1, 7}}));
  EXPECT_EQ(layout.indices_offset, (Lists{{0, 1}, {2}}));
  EXPECT_EQ(layout.field, 4);
}

TEST(ProtobufStrategy, AnOptimizerShardOfStepOrSizeZeroIsNone) {
  EXPECT_EQ(load_layout({{{4}}, {{-1}}, 0, 4}).optimizer_shard_size, 0);
  EXPECT_EQ(load_layout({{{4}}, {{-1}}, 0, -1}).optimizer_shard_size, 0);
  EXPECT_EQ(load_layout({{{4}}, {{-1}}, 1, 0}).optimizer_shard_size, 0);
  EXPECT_EQ(load_layout({{{4}}, {{-1}}, 1, 4}).optimizer_shard_size, 4);
}

TEST(ProtobufStrategy, AStageWithoutDeviceMatrixIsOneDevice) {
  for (const std::string& item : {layout_item("w", {{}, {{-1}}}), layout_item("w", {{{}}, {}})}) {
    const Strategy strategy = load_bytes(current_stage() + item);
    EXPECT_EQ(strategy.devices_per_stage(), 1);
    EXPECT_EQ(strategy.stage(0).at("w").device_matrix, std::vector<std::int64_t>{1});
  }
}

TEST(ProtobufStrategy, RefusesFilesOfAnotherKind) {
  const std::string not_one =
      "is not a MindSpore strategy file; a JSON strategy must have a name "
      "that ends in .json";
  EXPECT_EQ(refusal("{\"current_stage\": 1}"), not_one);
  EXPECT_EQ(refusal("some text"), not_one);
  EXPECT_EQ(refusal(std::string(100, '\0')), not_one);
  // A checkpoint: records of field 1, which is a message there.
  EXPECT_EQ(refusal(bytes_field(1, bytes_field(1, "w") + bytes_field(2, "\x08\x02"))), not_one);
}

TEST(ProtobufStrategy, RefusesFilesWithoutARequiredField) {
  const std::string file = simple_file("w", 0, 2);
  EXPECT_THAT(refusal(file.substr(current_stage().size())), StartsWith("is not a MindSpore"));
  const std::string no_step = bytes_field(1, "w") + bytes_field(2, number_field(5, 0));
  EXPECT_THAT(refusal(current_stage() + bytes_field(3, no_step)), StartsWith("is not a MindSpore"));
  EXPECT_THAT(refusal(current_stage() + bytes_field(2, bytes_field(1, "op"))),
              StartsWith("is not a MindSpore"));
}

TEST(ProtobufStrategy, RefusesFilesWithoutLayouts) {
  EXPECT_EQ(refusal(""), "holds no layouts");
  EXPECT_EQ(refusal(current_stage() + operator_item("op", 0)), "holds no layouts");
}

TEST(ProtobufStrategy, RefusesImpossibleLayouts) {
  const std::string parameter = "parameter 'net.w': ";
  EXPECT_EQ(layout_refusal({{{2}, {2}}, {{0}}}), parameter + "has 2 device matrices, expected one");
  EXPECT_THAT(layout_refusal({{{2, 2}}, {{1, -1}, {0}}}), HasSubstr("-1 in a list of several"));
  EXPECT_THAT(layout_refusal({{{2, 2}}, {{5}}}), StartsWith(parameter + "the tensor map names"));
  EXPECT_THAT(layout_refusal({{{2}}, {{-2}}}), HasSubstr("the tensor map has -2"));
  EXPECT_THAT(layout_refusal({{{2}}, {{1LL << 40}}}), HasSubstr("1099511627776"));
  EXPECT_THAT(layout_refusal({{{2, 2}}, {{0, 0}}}), HasSubstr("axis 0 twice"));
  EXPECT_THAT(layout_refusal({{{0}}, {{-1}}}), HasSubstr("axis of size 0"));
  EXPECT_THAT(layout_refusal({{{4}}, {{-1}}, 1, -7}), HasSubstr("-7"));
}

TEST(ProtobufStrategy, RefusesParametersThatAppearTwice) {
  EXPECT_EQ(refusal(simple_file("w", 0, 2) + layout_item("w", {{{2}}, {{-1, -1}}})),
            "parameter 'w': appears twice in one stage");
  EXPECT_EQ(refusal(simple_file("0-w", 0, 2) + layout_item("00-w", {{{2}}, {{0}}})),
            "parameter 'w': appears twice in one stage");
}

TEST(ProtobufStrategy, RefusesDifferentDeviceCounts) {
  EXPECT_EQ(refusal(simple_file("a", 0, 2) + layout_item("b", {{{2, 2}}, {{0}}})),
            "parameter 'b': has 4 devices, but parameter 'a' has 2; every parameter of every stage "
            "must be laid out over the same number of devices");
  EXPECT_THAT(refusal(simple_file("0-a", 0, 2) + layout_item("1-b", {{{4}}, {{0}}})),
              StartsWith("parameter 'b': has 4 devices, but parameter 'a' has 2"));
}

TEST(ProtobufStrategy, RefusesItemsOfAbsurdSize) {
  const std::string item = bytes_field(3, std::string(std::size_t{2} << 20U, '\0'));
  EXPECT_THAT(refusal(current_stage() + item), HasSubstr("2097152 bytes"));
}

TEST(ProtobufStrategy, MissingFilesAreMissing) {
  const TemporaryDirectory directory;
  const auto error = error_of(directory.path() / "nowhere.ckpt");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kMissing);
}

}  // namespace
}  // namespace reshardfs::testing
