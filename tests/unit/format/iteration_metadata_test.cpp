// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/iteration_metadata.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kLayout =
    R"({"device_matrix": [2, 2], "tensor_map": [[1, 0], -1], "interleaved_parallel": false,
        "alias_name": ["a", "b"], "rank_list": [4, 6, 5, 7]})";

IterationMetadata read(const std::string& json) {
  return read_iteration_metadata(test::MemorySource(json, "metadata.json"));
}

/// Of one parameter w.
std::string metadata(const std::string& state, const std::string& storage = "") {
  return R"({"state_dict_metadata": {"w": )" + state + R"(}, "storage_data": {)" + storage + "}}";
}
std::string state(const std::string& layout) {
  return R"({"properties": {"dtype": "float32"}, "global_shape": [8, 4], "layout": )" + layout +
         R"(, "chunk": [{"global_offset": [0], "local_shape": [8, 4]}]})";
}
std::string with(std::string text, const std::string& old, const std::string& replacement) {
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), replacement);
}

void expect_bad(const std::string& json, std::initializer_list<std::string> words) {
  test::expect_error(ErrorKind::kBadInput, words, [&] { read(json); });
}

TEST(IterationMetadata, StatesParametersAndTheirFiles) {
  const IterationMetadata found = read(metadata(state(kLayout), R"json(
      "('w', (1,))": [{"file_name": "model-5.safetensors", "storage_rank": 5, "rank_group": [5]}],
      "('w', (0,))": [{"file_name": "model-4.safetensors", "storage_rank": 4},
                      {"file_name": "model-5.safetensors", "storage_rank": 5, "more": {}}])json"));
  EXPECT_THAT(found.files, ElementsAre("model-5.safetensors", "model-4.safetensors"));
  ASSERT_EQ(found.parameters.size(), 1U);
  const RecordedParameter& w = found.parameters.front();
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.global_shape, (Shape{8, 4}));
  ASSERT_NE(w.layout, nullptr);
  EXPECT_THAT(w.layout->device_matrix, ElementsAre(2, 2));
  EXPECT_EQ(w.layout->tensor_map, (TensorMap{{1, 0}, {}}));
  EXPECT_FALSE(w.layout->interleaved);
  EXPECT_THAT(w.layout->ranks, ElementsAre(Rank(4), Rank(6), Rank(5), Rank(7)));
  ASSERT_EQ(w.slices->size(), 2U);
  EXPECT_EQ(w.slices->at(0).number, 0U);
  EXPECT_THAT(*w.slices->at(0).stored,
              ElementsAre(StoredShard{1, Rank(4)}, StoredShard{0, Rank(5)}));
  EXPECT_EQ(w.slices->at(1).number, 1U);
  EXPECT_THAT(*w.slices->at(1).stored, ElementsAre(StoredShard{0, Rank(5)}));
}

TEST(IterationMetadata, MayLackALayoutAndFiles) {
  const IterationMetadata null = read(metadata(state("null")));
  EXPECT_EQ(null.parameters.front().layout, nullptr);
  EXPECT_THAT(*null.parameters.front().slices, IsEmpty());
  EXPECT_EQ(read(metadata(R"({"global_shape": []})")).parameters.front().global_shape, Shape{});
  EXPECT_THAT(read(R"({"storage_data": {}, "state_dict_metadata": {}})").parameters, IsEmpty());
}

TEST(IterationMetadata, MayHaveItsKeysInAnyOrder) {
  const IterationMetadata found = read(R"json(
      {"later": [1],
       "storage_data": {"('v', (0,))": [{"storage_rank": 0, "file_name": "f"}]},
       "state_dict_metadata": {"w": {"layout": null, "global_shape": [1]},
                               "v": {"global_shape": [2]}}})json");
  ASSERT_EQ(found.parameters.size(), 2U);
  EXPECT_EQ(found.parameters[0].name, "v");
  EXPECT_EQ(found.parameters[0].global_shape, Shape{2});
  EXPECT_EQ(found.parameters[0].slices->size(), 1U);
  EXPECT_EQ(found.parameters[1].name, "w");
}

TEST(IterationMetadata, IsKeptOnceWhereItRepeats) {
  std::string parameters;
  std::string shards;
  for (const std::string name : {"w0", "w1", "w2"}) {
    if (!parameters.empty()) parameters += ", ";
    parameters += '"' + name + "\": " + state(kLayout);
    if (!shards.empty()) shards += ", ";
    shards += "\"('" + name + R"json(', (0,))": [{"file_name": "f", "storage_rank": 4}])json";
  }
  const IterationMetadata found =
      read(R"({"state_dict_metadata": {)" + parameters + R"(}, "storage_data": {)" + shards + "}}");
  ASSERT_EQ(found.parameters.size(), 3U);
  for (const RecordedParameter& parameter : found.parameters) {
    EXPECT_EQ(parameter.layout, found.parameters[0].layout);
    EXPECT_EQ(parameter.slices->front().stored, found.parameters[0].slices->front().stored);
  }
}

TEST(IterationMetadata, IsRefusedWithALayoutThatIsNone) {
  const auto bad = [](const std::string& old, const std::string& replacement,
                      const std::string& word) {
    expect_bad(metadata(state(with(kLayout, old, replacement))), {"metadata.json", "'w'", word});
  };
  bad("[2, 2]", "[2, 4]", "4 ranks, and its device_matrix 8 places");
  bad("[2, 2]", "[4294967296, 4294967296]", "device_matrix");
  bad("[2, 2]", "[0, 2]", "device_matrix is not an integer of at least 1");
  bad("[2, 2]", "2", "device_matrix is not a list");
  bad("-1]", "2]", "axis 2");
  bad("-1]", "-2]", "tensor_map");
  bad("-1]", "0]", "axis 0 twice");
  bad("-1]", "1.0]", "tensor_map");
  bad("-1]", "18446744073709551615]", "tensor_map");
  bad("-1]", "[[0]]]", "tensor_map");
  bad("[4, 6, 5, 7]", "[4, 6, 5, 4]", "rank 4 twice");
  bad("[4, 6, 5, 7]", "[4, 6, 5, -1]", "rank_list");
  bad("[4, 6, 5, 7]", "[4, 6, 5]", "3 ranks");
  bad("false", "0", "interleaved_parallel");
  bad("\"alias_name\"", "\"placements\"", "unknown key 'placements'");
  for (const char* const key :
       {"device_matrix", "tensor_map", "interleaved_parallel", "rank_list"}) {
    bad(std::string("\"") + key + "\"", "\"alias_name\"", "'alias_name' appears twice");
  }
  expect_bad(metadata(state(R"({"device_matrix": [1]})")), {"'w'", "'tensor_map' is missing"});
  expect_bad(metadata(state("[]")), {"'w'", "layout is not an object"});
}

TEST(IterationMetadata, IsRefusedWithAStateThatIsNone) {
  expect_bad(metadata("[]"), {"'w'", "is no object"});
  expect_bad(metadata("{}"), {"'w'", "'global_shape' is missing"});
  expect_bad(metadata(R"({"global_shape": [-1]})"), {"'w'", "global_shape"});
  expect_bad(metadata(R"({"global_shape": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]})"),
             {"'w'", "global_shape has 17 entries"});
  expect_bad(R"({"state_dict_metadata": {"w": {"global_shape": []}, "w": {"global_shape": []}},
                 "storage_data": {}})",
             {"'w'", "appears twice"});
  expect_bad(R"({"state_dict_metadata": {"": {"global_shape": []}}, "storage_data": {}})",
             {"a name of 0 bytes"});
  expect_bad(R"({"state_dict_metadata": {}})", {"storage_data is missing"});
}

TEST(IterationMetadata, IsRefusedWithShardsThatAreNone) {
  const auto bad = [](const std::string& storage, const std::string& word) {
    expect_bad(metadata(state("null"), storage), {"metadata.json", word});
  };
  const std::string one = R"([{"file_name": "f", "storage_rank": 0}])";
  const std::string w0 = "\"('w', (0,))\": ";
  bad("\"w\": " + one, "'w' is not a shard");
  bad("\"('w', (0, 1))\": " + one, "is not a shard");
  bad(w0 + one + ", " + w0 + one, "slice 0 appears twice");
  bad(w0 + one + R"json(, "('\\x77', (0,))": )json" + one, "slice 0 appears twice");
  bad("\"('v', (0,))\": " + one, "is in storage_data, but not in state_dict_metadata");
  bad(w0 + "{}", "list of files is not a list");
  bad(w0 + "[1]", "not an object");
  bad(w0 + R"([{"storage_rank": 0}])", "'file_name' is missing");
  bad(w0 + R"([{"file_name": "f"}])", "'storage_rank' is missing");
  bad(w0 + R"([{"file_name": "f", "storage_rank": -1}])", "storage_rank");
  bad(w0 + R"([{"file_name": 1, "storage_rank": 0}])", "file_name is not a text");
  const std::string long_name(256, 'x');
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("../f"), std::string("/f"),
        std::string("a/b"), std::string("a\\u0000b"), long_name}) {
    bad(w0 + R"([{"file_name": ")" + name + R"(", "storage_rank": 0}])", "not in the directory");
  }
}

TEST(IterationMetadata, HasLimits) {
  const auto ones = [](std::size_t count) {
    std::string list = "[";
    for (std::size_t i = 0; i < count; ++i) list += i == 0 ? "1" : ", 1";
    return list + "]";
  };
  expect_bad(metadata(state(with(kLayout, "[2, 2]", ones(65)))),
             {"metadata.json", "'w'", "device_matrix has 65 entries; the limit is 64"});
  expect_bad(metadata(state(with(kLayout, "[[1, 0], -1]", ones(18)))),
             {"metadata.json", "'w'", "tensor_map has 18 entries; the limit is 17"});
  expect_bad(metadata(state(with(kLayout, "[1, 0]", ones(65)))),
             {"metadata.json", "'w'", "tensor_map has 65 entries; the limit is 64"});
  expect_bad(metadata(state(with(kLayout, "7]", "1048576]"))),
             {"metadata.json", "'w'", "rank 1048576; the limit is 1048576 ranks"});
  expect_bad(metadata(state("null"), R"json("('w', (0,))": [{"file_name": "f",
                                                             "storage_rank": 1048576}])json"),
             {"metadata.json", "'w'", "rank 1048576; the limit is 1048576 ranks"});
  const std::string name(4097, 'n');
  expect_bad(R"({"state_dict_metadata": {")" + name + R"(": {}}, "storage_data": {}})",
             {"metadata.json", "'nnn", "a name of 4097 bytes; the limit is 4096"});
  expect_bad(metadata(state("null"), "\"('" + name + "', (0,))\": []"),
             {"metadata.json", "'nnn", "a name of 4097 bytes; the limit is 4096"});
}

TEST(IterationMetadata, HasSoManyParametersAndSlicesAtMost) {
  EXPECT_EQ(MetadataLimits().parameters, 2'000'000U);
  EXPECT_EQ(MetadataLimits().slices, 50'000'000U);
  const test::MemorySource source(metadata(state("null"), R"json("('w', (0,))": [],
                                                                 "('w', (1,))": [])json"),
                                  "metadata.json");
  EXPECT_EQ(read_iteration_metadata(source, {1, 2}).parameters.front().slices->size(), 2U);
  test::expect_error(ErrorKind::kBadInput,
                     {"metadata.json", "'w'", "has more than 0 parameters, which is the limit"},
                     [&] {
                       read_iteration_metadata(source, {0, 2});
                     });
  test::expect_error(
      ErrorKind::kBadInput,
      {"metadata.json", "'w'", "the metadata has more than 1 slices, which is the limit"}, [&] {
        read_iteration_metadata(source, {1, 1});
      });
}

TEST(IterationMetadata, MayBeHostile) {
  const auto bad = [](const std::string& storage, const std::string& word) {
    expect_bad(metadata(state("null"), storage), {"metadata.json", word});
  };
  const std::string one = R"([{"file_name": "f", "storage_rank": 0}])";
  bad("\"('w', (" + std::string(10'000, '9') + ",))\": " + one, "is not a shard");
  bad("\"('w', (18446744073709551616,))\": " + one, "is not a shard");
  bad("\"('w', (0))\": " + one, "is not a shard");
  bad("\"('w', (0,)) + f()\": " + one, "is not a shard");
  bad("\"__import__('os')\": " + one, "is not a shard");
  bad("\"" + std::string(1'000'000, '(') + "\": " + one, "is not a shard");
  bad(R"json("('w', (0,))": [{"file_name": "f", "file_name": "g", "storage_rank": 0}])json",
      "'file_name' appears twice");
  bad(R"json("('w', (0,))": [{"file_name": "f", "storage_rank": 1e999}])json", "is not valid JSON");
  bad(R"json("('w', (0,))": )json" + std::string(1'000'000, '['), "nested too deeply");
  bad(R"json("('w', (0,))": [{"rank_group": )json" + std::string(1'000'000, '['),
      "nested too deeply");
  const std::string numbers = "[" + std::string(10'000, '9') + "]";
  expect_bad(R"({"state_dict_metadata": {"w": {"global_shape": )" + numbers + "}}}",
             {"metadata.json", "is not valid JSON"});
  expect_bad(R"({"state_dict_metadata": {"w": {"global_shape": [], "global_shape": []}}})",
             {"metadata.json", "'w'", "'global_shape' appears twice"});
  expect_bad(R"({"state_dict_metadata": {}, "storage_data": {}, "storage_data": {}})",
             {"metadata.json", "storage_data appears twice"});
}

}  // namespace
}  // namespace reshardfs
