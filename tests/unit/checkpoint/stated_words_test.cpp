// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/stated_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_set.h"
#include "support/temp_dir.h"
#include "unit/format/safetensors_samples.h"

namespace reshardfs::stated_words_tests {
namespace {

using test::safetensors_file;
using test::tensor_json;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::string file(const std::string& tensor, const std::string& metadata) {
  return safetensors_file(
      "{\"__metadata__\":{" + metadata + "}," + tensor_json(tensor, "I8", "[1]", 0, 1) + "}", "x");
}

class StatedWordsTest : public testing::Test {
 protected:
  void add(int number, const std::string& metadata) const {
    const std::string digit = std::to_string(number);
    dir_.write("model-0000" + digit + "-of-00002.safetensors", file("w" + digit, metadata));
  }
  void add_index(const std::string& metadata,
                 const std::string& named = "model-00001-of-00002.safetensors") const {
    dir_.write("model.safetensors.index.json",
               "{\"weight_map\":{\"w1\":\"" + named +
                   "\",\"w2\":\"model-00002-of-00002.safetensors\"},\"metadata\":" + metadata +
                   "}");
  }
  StatedWords read() const {
    return read_stated_words(CheckpointSet::open(dir_.path(), {}), nullptr);
  }
  test::TempDir dir_;
};

TEST_F(StatedWordsTest, AreThoseOfAllFilesButWhatIsAboutOneAlone) {
  add(1, R"("format":"pt","crc_num":"1","both":"x","w1":"Int4")");
  add(2, R"("format":"ms","crc_num":"2","both":"x","own":"y","remove_redundancy":"True")");
  const StatedWords words = read();
  EXPECT_THAT(words.header, ElementsAre(Pair("both", "x"), Pair("own", "y")));
  EXPECT_THAT(words.ambiguous, IsEmpty());
  EXPECT_THAT(words.index, IsEmpty());
}

TEST_F(StatedWordsTest, AreLeftOutWhereFilesContradictEachOther) {
  add(1, R"("a":"1","tensor_names":"[\"x\", \"y\"]")");
  add(2, R"("a":"2","tensor_names":"[\"y\", \"z\"]")");
  const StatedWords words = read();
  EXPECT_THAT(words.ambiguous, ElementsAre("a"));
  EXPECT_THAT(words.header, ElementsAre(Pair("tensor_names", R"(["x", "y", "z"])")));
}

TEST_F(StatedWordsTest, OfAnIndexAreJson) {
  add(1, "");
  add(2, "");
  add_index(R"({"total_size":2,"n":1.50,"t":"\u00e9","o":{"a":[1,null]}})");
  EXPECT_THAT(read().index,
              ElementsAre(Pair("n", "1.50"), Pair("t", "\"é\""), Pair("o", R"({"a": [1, null]})")));
}

TEST(StatedWords, OfATooLargeHeaderAreRefused) {
  const test::TempDir dir;
  dir.write("model.safetensors",
            file("w", "\"a\":\"" + std::string(kMostWordBytes, 'x') + "\",\"b\":\"\""));
  const StatedWords words = read_stated_words(CheckpointSet::open(dir.path(), {}), nullptr);
  EXPECT_THAT(words.header, IsEmpty());
  EXPECT_NE(words.refused.find("the limit is 50000000"), std::string::npos);
}

TEST(StatedWords, OfClassesAreThoseWithAType) {
  EXPECT_TRUE(states_class(R"({"_type": "Tensor"})"));
  EXPECT_FALSE(states_class(R"({"type": "Tensor"})"));
  EXPECT_FALSE(states_class("{"));
  EXPECT_EQ(described_tensors("tensor_names", R"(["a"])"), std::vector<std::string>{"a"});
  EXPECT_EQ(described_tensors("tensor_names", "[1]"), std::nullopt);
  EXPECT_EQ(described_tensors("names", R"(["a"])"), std::nullopt);
}

}  // namespace
}  // namespace reshardfs::stated_words_tests
