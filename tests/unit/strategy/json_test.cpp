// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategy_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kRest = R"("field":0,"opt_weight_shard_size":0,"opt_weight_shard_step":0)";

std::string file_with_layout(const std::string& layout) {
  return R"({"current_stage":1,"parallel_layout_item":{"net.w":)" + layout +
         R"(},"parallel_strategy_item":{"op":{"stage":0,"parallel_strategy":[[1,1]]}}})";
}

std::string file_with_map(const std::string& matrix, const std::string& map) {
  return file_with_layout(R"({"dev_matrix":)" + matrix + R"(,"tensor_map":)" + map + "," + kRest +
                          "}");
}

Strategy load_json(const std::string& text) {
  return load_bytes(text, "s.json");
}
std::string json_refusal(const std::string& text) {
  return refusal(text, "s.json");
}

TensorMap map_of(const std::string& matrix, const std::string& map) {
  return load_json(file_with_map(matrix, map)).stage(0).at("net.w").tensor_map;
}

TEST(JsonStrategy, ReadsAllKeys) {
  const Strategy strategy = load_json(
      file_with_layout(R"({"dev_matrix":[2,4],"tensor_map":[1,-1],"tensor_shape":[8,6],"field":3,)"
                       R"("opt_weight_shard_step":2,"opt_weight_shard_size":-1,)"
                       R"("param_split_shape":[3,9],"indices_offset":[[0,1],[],[2]]})"));
  const Layout& layout = strategy.stage(0).at("net.w");
  EXPECT_EQ(layout.device_matrix, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(layout.tensor_map, (TensorMap{{1}, {}}));
  EXPECT_EQ(layout.tensor_shape, (Shape{8, 6}));
  EXPECT_EQ(layout.field, 3);
  EXPECT_EQ(layout.optimizer_shard_step, 2);
  EXPECT_EQ(layout.optimizer_shard_size, -1);
  EXPECT_EQ(layout.param_split_shape, (Lists{{3, 9}}));
  EXPECT_EQ(layout.indices_offset, (Lists{{0, 1}, {2}}));
  EXPECT_EQ(strategy.operators(), (std::vector<OperatorStrategy>{{"op", 0, {{1, 1}}}}));
}

TEST(JsonStrategy, ReadsNestedTensorMaps) {
  EXPECT_EQ(map_of("[2,2]", "[[1,0],[-1]]"), (TensorMap{{1, 0}, {}}));
  EXPECT_EQ(map_of("[2,2]", "[[1,0],-1]"), (TensorMap{{1, 0}, {}}));
  EXPECT_EQ(map_of("[2,2]", "[[1],0]"), (TensorMap{{1}, {0}}));
  EXPECT_EQ(map_of("[2,2]", "[]"), TensorMap{});
}

TEST(JsonStrategy, TheFirstOperatorOfTheFileGivesTheStage) {
  const std::string text = R"({"parallel_strategy_item":{"z":{"stage":3,"parallel_strategy":[]},)"
                           R"("a":{"stage":1,"parallel_strategy":[]}},"parallel_layout_item":{"w":)"
                           R"({"dev_matrix":[2],"tensor_map":[0],)" +
                           std::string(kRest) + "}}}";
  EXPECT_EQ(load_json(text).first_stage(), 3);
}

TEST(JsonStrategy, FieldMayBeAbsent) {
  const Strategy strategy = load_json(file_with_layout(
      R"({"dev_matrix":[2],"tensor_map":[0],"opt_weight_shard_size":0,"opt_weight_shard_step":0})"));
  EXPECT_EQ(strategy.stage(0).at("net.w").field, 0);
}

TEST(JsonStrategy, IgnoresKeysItDoesNotKnow) {
  const std::string text = file_with_map("[2]", "[0]");
  const std::string extra = R"({"new":[{"deep":[[[[[[[[[[1]]]]]]]]]]}],"other":null,)";
  EXPECT_EQ(load_json(extra + text.substr(1)).devices_per_stage(), 2);
}

TEST(JsonStrategy, RefusesTextThatIsNotJson) {
  EXPECT_THAT(json_refusal("{\"a\":\n  x}"),
              ::testing::MatchesRegex("offset [0-9]+: is not valid JSON at a .line 2, column 3."));
  EXPECT_THAT(json_refusal("{"), HasSubstr("is not valid JSON"));
  EXPECT_THAT(json_refusal(file_with_map("[2]", "[0]") + "}"), HasSubstr("is not valid JSON"));
  EXPECT_THAT(json_refusal(simple_file("w", 0, 2)), HasSubstr("is not valid JSON"));
  EXPECT_THAT(json_refusal("{\"\xff\":1}"), HasSubstr("is not valid JSON"));
}

TEST(JsonStrategy, RefusesTextThatIsNoStrategy) {
  EXPECT_EQ(json_refusal("[1]"), "is not a strategy: the file is a list, expected an object");
  EXPECT_EQ(json_refusal("7"), "is not a strategy: the file is an integer, expected an object");
  EXPECT_EQ(json_refusal(R"({"parallel_layout_item":[]})"),
            "key 'parallel_layout_item' has a list, expected an object");
  EXPECT_EQ(json_refusal(R"({"parallel_layout_item":{"w":3}})"),
            "parameter 'w': is an integer, expected an object");
}

TEST(JsonStrategy, RefusesFilesWithoutLayouts) {
  EXPECT_EQ(json_refusal(""), "holds no layouts");
  EXPECT_EQ(json_refusal("{}"), "holds no layouts");
  EXPECT_EQ(json_refusal(R"({"parallel_layout_item":{}})"), "holds no layouts");
}

TEST(JsonStrategy, NamesTheMissingKey) {
  const std::string parameter = "parameter 'net.w': ";
  EXPECT_EQ(json_refusal(file_with_layout("{}")), parameter + "key 'dev_matrix' is missing");
  EXPECT_EQ(json_refusal(file_with_layout(R"({"dev_matrix":[2]})")),
            parameter + "key 'tensor_map' is missing");
  EXPECT_EQ(json_refusal(file_with_layout(
                R"({"dev_matrix":[2],"tensor_map":[0],"opt_weight_shard_size":0})")),
            parameter + "key 'opt_weight_shard_step' is missing");
  EXPECT_EQ(json_refusal(file_with_layout(
                R"({"dev_matrix":[2],"tensor_map":[0],"opt_weight_shard_step":0})")),
            parameter + "key 'opt_weight_shard_size' is missing");
}

TEST(JsonStrategy, NamesTheKeyOfAWrongType) {
  const std::string parameter = "parameter 'net.w': ";
  EXPECT_EQ(json_refusal(file_with_map("2", "[0]")),
            parameter + "key 'dev_matrix' has an integer, expected a list");
  EXPECT_EQ(json_refusal(file_with_map("[2.5]", "[0]")),
            parameter +
                "key 'dev_matrix' has a number that is not a 64-bit integer in a list, "
                "expected an integer");
  EXPECT_EQ(json_refusal(file_with_map("[2]", "null")),
            parameter + "key 'tensor_map' has null, expected a list");
  EXPECT_EQ(json_refusal(file_with_map("[2]", "[\"0\"]")),
            parameter +
                "key 'tensor_map' has a text in a list, expected an integer or a list of "
                "them");
  EXPECT_EQ(json_refusal(file_with_map("[18446744073709551615]", "[0]")),
            parameter +
                "key 'dev_matrix' has a number that is not a 64-bit integer in a list, "
                "expected an integer");
  EXPECT_EQ(json_refusal(file_with_layout(
                R"({"dev_matrix":[2],"tensor_map":[0],"opt_weight_shard_step":true})")),
            parameter + "key 'opt_weight_shard_step' has a boolean, expected an integer");
}

TEST(JsonStrategy, RefusesImpossibleMaps) {
  EXPECT_THAT(json_refusal(file_with_map("[2,2]", "[[1,-1]]")), HasSubstr("-1 in a list"));
  EXPECT_THAT(json_refusal(file_with_map("[2,2]", "[[]]")), HasSubstr("empty list of axes"));
  EXPECT_THAT(json_refusal(file_with_map("[2,2]", "[2]")), HasSubstr("axis 2"));
}

TEST(JsonStrategy, PipelineParallelismAloneIsOneDeviceAStage) {
  const Strategy strategy = load_bytes(file_with_map("[]", "[-1]"), "s.json");
  EXPECT_EQ(strategy.devices_per_stage(), 1);
}

TEST(JsonStrategy, RefusesKeysThatAppearTwice) {
  const std::string layout = R"({"dev_matrix":[2],"tensor_map":[0],)" + std::string(kRest) + "}";
  EXPECT_EQ(json_refusal(file_with_layout(layout + ",\"net.w\":" + layout)),
            "parameter 'net.w': appears twice in one stage");
  EXPECT_EQ(json_refusal(file_with_layout(R"({"dev_matrix":[2],"dev_matrix":[2]})")),
            "parameter 'net.w': its key 'dev_matrix' appears twice");
}

TEST(JsonStrategy, RefusesOperatorsWithoutAStage) {
  EXPECT_EQ(json_refusal(R"({"parallel_strategy_item":{"MatMul":{}}})"),
            "operator 'MatMul': key 'stage' is missing");
  EXPECT_EQ(json_refusal(R"({"parallel_strategy_item":{"MatMul":7}})"),
            "operator 'MatMul': is an integer, expected an object");
}

TEST(JsonStrategy, RefusesHostileNesting) {
  const std::string deep(100'000, '[');
  EXPECT_THAT(json_refusal(R"({"parallel_layout_item":{"w":)" + deep),
              StartsWith("parameter 'w': is nested too deeply"));
  EXPECT_THAT(json_refusal(R"({"parallel_strategy_item":{"w":)" + deep),
              StartsWith("operator 'w': is nested too deeply"));
  EXPECT_THAT(json_refusal(R"({"x":)" + deep), HasSubstr("is nested too deeply"));
}

TEST(JsonStrategy, RefusesHostileNumbersOfValues) {
  std::string keys = R"({"parallel_layout_item":{"w":{"k":0)";
  for (int i = 0; i < 100; ++i) keys += ",\"k" + std::to_string(i) + "\":0";
  EXPECT_EQ(json_refusal(keys),
            "parameter 'w': has an object of more than 64 keys, which is the limit");
  std::string values = R"({"parallel_layout_item":{"w":{"k":[0)";
  for (int i = 0; i < 1'000'001; ++i) values += ",0";
  EXPECT_EQ(json_refusal(values),
            "parameter 'w': has more than 1000000 values, which is the limit");
}

}  // namespace
}  // namespace reshardfs::testing
