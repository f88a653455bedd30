// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/iteration_metadata_text.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "format/mindformers/iteration_metadata.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::iteration_metadata_text_tests {
namespace {

using Json = nlohmann::ordered_json;

std::string part_of(const IterationMetadataText& text, std::uint64_t offset, std::size_t bytes) {
  std::string out(bytes, '?');
  text.read_at(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

std::string all_of(const IterationMetadataText& text) {
  return part_of(text, 0, static_cast<std::size_t>(text.size()));
}

std::shared_ptr<const SavedCut> cut(const std::vector<std::int64_t>& matrix, const TensorMap& map,
                                    const std::vector<Rank>& first_ranks = {Rank()}) {
  return std::make_shared<const SavedCut>(Layout{.device_matrix = matrix, .tensor_map = map},
                                          first_ranks);
}

/// Two stages of four ranks; one parameter that both have, one without a layout.
std::vector<SavedParameter> parameters() {
  return {{"w", DType::kFloat32, {8, 6}, cut({2, 2}, {{0}, {}}), false},
          {"adam_m.w", DType::kFloat32, {8, 6}, cut({2, 2}, {{0}, {}}), true},
          {"shared", DType::kBFloat16, {8}, cut({2, 2}, {{0, 1}}, {Rank(0), Rank(4)}), false},
          {"it's a \"name\"\n層", DType::kBool, {4, 4}, cut({2, 2}, {{}, {1}}, {Rank(4)}), false},
          {"step",
           DType::kInt32,
           {1},
           std::make_shared<const SavedCut>(SavedCut::whole(
               {Rank(0), Rank(1), Rank(2), Rank(3), Rank(4), Rank(5), Rank(6), Rank(7)})),
           true},
          {"scalar", DType::kFloat64, {}, cut({4}, {}, {Rank(4)}), false}};
}

Json entries(const std::string& kind, const std::vector<int>& ranks) {
  Json list = Json::array();
  for (const int rank : ranks) {
    list.push_back(
        {{"file_name", "p\"-" + kind + "-000000" + std::to_string(rank) + "-0000008.safetensors"},
         {"storage_rank", rank},
         {"rank_group", ranks}});
  }
  return list;
}

TEST(IterationMetadataText, IsAsTheOriginalWritesIt) {
  const IterationMetadataText text(parameters(), "p\"-", 8, MetadataForm::kIndented);
  const Json json = Json::parse(all_of(text));
  EXPECT_EQ(all_of(text), json.dump(4));

  const Json& states = json["state_dict_metadata"];
  EXPECT_EQ(states["w"], Json::parse(R"({
    "properties": {"dtype": "float32", "replica_id": [0, 0, 1, 1],
                   "allow_shape_mismatch": false, "allow_to_save": true},
    "global_shape": [8, 6], "axis_fragmentations": [2, 1],
    "layout": {"device_matrix": [2, 2], "tensor_map": [0, -1], "interleaved_parallel": false,
               "alias_name": ["a", "b"], "rank_list": [0, 1, 2, 3]},
    "chunk": [{"global_offset": [0], "local_shape": [4, 6]},
              {"global_offset": [1], "local_shape": [4, 6]}]})"));
  // Two axes on one dimension: a map of two entries, and slices in the order of the ranks.
  EXPECT_EQ(states["shared"], Json::parse(R"({
    "properties": {"dtype": "bfloat16", "replica_id": [0, 0, 0, 0],
                   "allow_shape_mismatch": false, "allow_to_save": true},
    "global_shape": [8], "axis_fragmentations": [4, 1],
    "layout": {"device_matrix": [2, 2], "tensor_map": [[0, 1], -1], "interleaved_parallel": false,
               "alias_name": ["a", "b"], "rank_list": [0, 1, 2, 3]},
    "chunk": [{"global_offset": [0], "local_shape": [2]}, {"global_offset": [2], "local_shape": [2]},
              {"global_offset": [1], "local_shape": [2]},
              {"global_offset": [3], "local_shape": [2]}]})"));
  EXPECT_EQ(states["step"], Json::parse(R"({
    "properties": {"dtype": "int32", "replica_id": 0,
                   "allow_shape_mismatch": false, "allow_to_save": true},
    "global_shape": [1], "axis_fragmentations": [1], "layout": null,
    "chunk": [{"global_offset": [0], "local_shape": [1]}]})"));
  EXPECT_EQ(states["it's a \"name\"\n層"]["properties"]["dtype"], "bool_");
  EXPECT_EQ(states["it's a \"name\"\n層"]["layout"]["rank_list"], Json({4, 5, 6, 7}));

  std::vector<std::string> keys;
  for (const auto& [key, value] : json["storage_data"].items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{
                      "('w', (0,))", "('adam_m.w', (0,))", "('shared', (0,))", "('step', (0,))",
                      "('w', (1,))", "('adam_m.w', (1,))", "('shared', (2,))", "('shared', (1,))",
                      "('shared', (3,))", "('it\\'s a \"name\"\\n層', (0,))", "('scalar', (0,))",
                      "('it\\'s a \"name\"\\n層', (1,))"}));
  EXPECT_EQ(json["storage_data"]["('adam_m.w', (1,))"], entries("opt", {1, 3}));
  EXPECT_EQ(json["storage_data"]["('shared', (2,))"], entries("model", {1, 5}));
  EXPECT_EQ(json["storage_data"]["('step', (0,))"], entries("opt", {0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(json["storage_data"]["('it\\'s a \"name\"\\n層', (1,))"], entries("model", {6, 7}));
}

TEST(IterationMetadataText, IsOneLineInLaterReleases) {
  const IterationMetadataText indented(parameters(), "p\"-", 8, MetadataForm::kIndented);
  const IterationMetadataText line(parameters(), "p\"-", 8, MetadataForm::kOneLine);
  EXPECT_EQ(all_of(line), Json::parse(all_of(indented)).dump());
}

TEST(IterationMetadataText, IsReadInPieces) {
  for (const MetadataForm form : {MetadataForm::kIndented, MetadataForm::kOneLine}) {
    const IterationMetadataText text(parameters(), "", 8, form);
    const std::string whole = all_of(text);
    for (std::uint64_t at = 0; at <= text.size(); ++at) {
      const std::size_t length = std::min<std::size_t>(7, whole.size() - at);
      ASSERT_EQ(part_of(text, at, length), whole.substr(at, length)) << at;
    }
    std::mt19937 random(1);
    for (int i = 0; i < 300; ++i) {
      const std::size_t begin = random() % whole.size();
      const std::size_t length = random() % (whole.size() - begin);
      ASSERT_EQ(part_of(text, begin, length), whole.substr(begin, length));
    }
    std::string more(2, '?');
    EXPECT_THROW(text.read_at(text.size() - 1, std::as_writable_bytes(std::span(more))), Error);
    EXPECT_THROW(text.read_at(text.size() + 1, {}), Error);
  }
}

TEST(IterationMetadataText, IsWhatTheReaderTakes) {
  const IterationMetadataText text(parameters(), "qwen3-", 8, MetadataForm::kOneLine);
  const IterationMetadata read =
      read_iteration_metadata(test::MemorySource(all_of(text), "metadata.json"));
  ASSERT_EQ(read.parameters.size(), parameters().size());
  EXPECT_EQ(read.files.size(), 16U);
  const RecordedParameter& shared = read.parameters[2];
  EXPECT_EQ(shared.name, "shared");
  EXPECT_EQ(shared.global_shape, Shape{8});
  ASSERT_EQ(shared.slices->size(), 4U);
  EXPECT_EQ(shared.slices->at(2).stored->size(), 2U);
}

TEST(IterationMetadataText, RefusesWhatJsonCannotHold) {
  test::expect_error(ErrorKind::kUnsupported, {"is not UTF-8"}, [] {
    IterationMetadataText({{"w\xff", DType::kInt8, {1}, cut({1}, {{}}), false}}, "", 1,
                          MetadataForm::kIndented);
  });
  test::expect_error(ErrorKind::kUnsupported, {"prefix", "is not UTF-8"},
                     [] { IterationMetadataText({}, "p\xff-", 1, MetadataForm::kIndented); });
  const std::vector<std::int64_t> many(27, 1);
  test::expect_error(ErrorKind::kUnsupported, {"'w'", "at most 26 axes, but this one 27"}, [&] {
    IterationMetadataText({{"w", DType::kInt8, {1}, cut(many, {{}}), false}}, "", 1,
                          MetadataForm::kIndented);
  });
}

}  // namespace
}  // namespace reshardfs::iteration_metadata_text_tests
