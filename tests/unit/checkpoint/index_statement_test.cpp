// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/index_statement.h"

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sources.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(IndexStatement, ReadsTheTotalSize) {
  const auto of = [](const std::string& text) { return read_total_size(text).value_or(0); };
  EXPECT_EQ(of(R"({"metadata": {"total_size": 12}, "weight_map": {"metadata": "a"}})"), 12U);
  EXPECT_EQ(of(R"({"weight_map": {"a": "b"}, "metadata": {"x": {"y": 1}, "total_size": 12.0}})"),
            12U);
  for (const char* text :
       {"", "[]", "{}", R"({"metadata": 3})", R"({"metadata": {}})",
        R"({"metadata": {"total_size": "12"}})", R"({"metadata": {"total_size": -12}})",
        R"({"metadata": {"total_size": 1.5}})",
        R"({"weight_map": {"metadata": {"total_size": 12}}})", R"({"total_size": 12})"}) {
    EXPECT_EQ(of(text), 0U) << text;
  }
}

struct Tensor {
  std::string name;
  DType dtype;
  Shape shape;
};

class TotalTest : public testing::Test {
 protected:
  TotalTest() {
    index_.map_file = "d/model.safetensors.index.json";
    index_.is_hub_index = true;
  }

  Completeness state(std::uint64_t total, const std::vector<Tensor>& tensors,
                     const std::filesystem::path& config = {}) {
    std::vector<TensorEntry> entries;
    for (const Tensor& tensor : tensors) {
      TensorEntry entry;
      entry.name = tensor.name;
      entry.dtype = tensor.dtype;
      entry.shape = tensor.shape;
      entry.content_bytes =
          static_cast<std::uint64_t>(element_count(tensor.shape) * element_size(tensor.dtype));
      entries.push_back(std::move(entry));
      index_.places.emplace_back(tensor.name, 0);
    }
    RankFile file;
    file.source = std::make_shared<test::MemorySource>(std::string(1000, 'x'));
    file.index = std::make_shared<const FileIndex>(std::move(entries));
    index_.total_bytes = total;
    Completeness out;
    state_total(index_, {file}, config, nullptr, out);
    return out;
  }

  NameMapDirectory index_;
};

const std::vector<Tensor> kHalves{{"a", DType::kFloat32, {4}}, {"b", DType::kFloat32, {4}}};

TEST_F(TotalTest, IsTheSumOfTheBytes) {
  EXPECT_THAT(state(32, kHalves).missing, IsEmpty());
  EXPECT_THAT(state(32, kHalves).differences, IsEmpty());
}

TEST_F(TotalTest, IsOfMissingTensorsIfItIsLarger) {
  // Also if it is the double: half of the model may be missing.
  for (const std::uint64_t total : {33U, 64U, 128U}) {
    const Completeness out = state(total, kHalves);
    ASSERT_EQ(out.missing.size(), 1U) << total;
    EXPECT_THAT(out.missing.front().what(), HasSubstr("but its files have 32"));
  }
}

TEST_F(TotalTest, DiffersIfItIsSmaller) {
  const Completeness out = state(31, kHalves);
  EXPECT_THAT(out.missing, IsEmpty());
  ASSERT_EQ(out.differences.size(), 1U);
  EXPECT_THAT(warnings_of(out), ElementsAre(HasSubstr("31 bytes")));
}

TEST_F(TotalTest, MayCountWholeFilesOrAnotherType) {
  EXPECT_THAT(state(1000, kHalves).missing, IsEmpty());
  const std::vector<Tensor> mixed{{"a", DType::kInt8, {100}}, {"b", DType::kFloat32, {10}}};
  EXPECT_THAT(state(220, mixed).missing, IsEmpty());
  EXPECT_EQ(state(280, mixed).missing.size(), 1U);
}

TEST_F(TotalTest, MayCountATiedEmbeddingTwice) {
  const test::TempDir dir;
  const std::vector<Tensor> tensors{{"a", DType::kFloat32, {5}},
                                    {"model.embed_tokens.weight", DType::kFloat32, {3, 4}}};
  EXPECT_EQ(state(116, tensors).missing.size(), 1U);
  const auto tied = dir.write("tied.json", R"({"tie_word_embeddings": true})");
  const auto other = dir.write("other.json", R"({"tie_word_embeddings": false})");
  EXPECT_THAT(state(116, tensors, tied).missing, IsEmpty());
  EXPECT_EQ(state(116, tensors, other).missing.size(), 1U);
  EXPECT_EQ(state(117, tensors, tied).missing.size(), 1U);
}

TEST_F(TotalTest, IsSomethingElseInAMapOfMindSpore) {
  index_.is_hub_index = false;
  EXPECT_THAT(state(9999, kHalves).missing, IsEmpty());
}

TEST_F(TotalTest, SaysWhichTensorsTheIndexDoesNotName) {
  index_.places.clear();
  state(32, kHalves);
  index_.places = {{"a", 0}};
  std::vector<TensorEntry> entries(1);
  entries.front().name = "extra";
  RankFile file;
  file.source = std::make_shared<test::MemorySource>("");
  file.index = std::make_shared<const FileIndex>(std::move(entries));
  Completeness out;
  index_.total_bytes.reset();
  state_total(index_, {file}, {}, nullptr, out);
  EXPECT_THAT(out.doubts, ElementsAre(HasSubstr("does not name 1 tensor of its files: 'extra'")));
}

TEST(IndexStatement, TellsWhatLiesBesideItsFiles) {
  NameMapDirectory index;
  index.map_file = "d/param_name_map.json";
  index.files = {"d/hyper_param.safetensors", "d/part0.safetensors", "d/part1.safetensors"};
  index.beside = {"part2.safetensors"};
  Completeness out;
  state_index(index, out);
  ASSERT_EQ(out.missing.size(), 1U);
  EXPECT_THAT(out.missing.front().what(), HasSubstr("names no tensor of 'part2.safetensors'"));

  index.files = {"d/model-00001-of-00002.safetensors", "d/model-00002-of-00002.safetensors"};
  index.beside = {"consolidated.safetensors", "model-00003-of-00003.safetensors"};
  Completeness others;
  state_index(index, others);
  EXPECT_THAT(others.missing, IsEmpty());
  EXPECT_THAT(others.doubts, ElementsAre(HasSubstr("not read, because param_name_map.json")));
  EXPECT_THAT(others.grounds, ElementsAre("the index param_name_map.json"));
}

}  // namespace
}  // namespace reshardfs
