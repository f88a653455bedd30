// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shards/shard_shapes.h"

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sources.h"

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Part {
  std::string name;
  Shape offsets;
  Shape sizes;
};

RankFile file_of(std::int64_t shard, std::int64_t number, const std::vector<Part>& parts) {
  std::vector<TensorEntry> entries;
  BoxOffsets pieces;
  for (const Part& part : parts) {
    pieces.add(entries.size(), part.offsets);
    TensorEntry entry;
    entry.name = part.name;
    entry.dtype = DType::kFloat32;
    entry.shape = part.sizes;
    entries.push_back(std::move(entry));
  }
  RankFile file;
  file.rank = Rank(shard);
  file.part = number;
  file.path = "shard";
  file.source = std::make_shared<test::MemorySource>("");
  file.index =
      std::make_shared<const FileIndex>(std::move(entries), IndexHints{}, std::move(pieces));
  return file;
}

/// Rows cut for so many ranks as torch.chunk does it, of which the first shards are there.
std::vector<RankFile> shards_of(const std::map<std::string, Shape>& tensors, std::int64_t ranks,
                                std::int64_t there) {
  std::vector<RankFile> files;
  for (std::int64_t shard = 0; shard < there; ++shard) {
    std::vector<Part> parts;
    for (const auto& [name, shape] : tensors) {
      const std::int64_t most = (shape[0] + ranks - 1) / ranks;
      const std::int64_t begin = shard * most;
      if (begin >= shape[0]) continue;
      Part part{name, Shape(shape.size(), 0), shape};
      part.offsets[0] = begin;
      part.sizes[0] = std::min(most, shape[0] - begin);
      parts.push_back(std::move(part));
    }
    files.push_back(file_of(shard, 0, parts));
  }
  return files;
}

Completeness state(ShardEvidence evidence, const std::vector<RankFile>& files) {
  evidence.shards = files.back().rank.number() + 1;
  evidence.numbered = true;
  Completeness out;
  state_shapes(evidence, files, out);
  return out;
}

std::vector<std::string> open_of(const Completeness& out) {
  std::vector<std::string> names;
  for (const OpenShape& open : out.open_extents) names.push_back(open.name);
  return names;
}

std::vector<std::string> short_of(const Completeness& out) {
  std::vector<std::string> texts;
  for (const Error& error : out.short_parameters) texts.emplace_back(error.what());
  return texts;
}

ShardEvidence with_config(const std::string& text) {
  ShardEvidence evidence;
  evidence.config = ModelShapes(text);
  return evidence;
}

const std::map<std::string, Shape> kModel{
    {"lm_head.weight", {12, 4}}, {"w.bias", {12}}, {"w.weight", {12, 4}}};

TEST(ShardExtents, AreOpenWhereNothingStatesThem) {
  const Completeness out = state({}, shards_of(kModel, 3, 3));
  EXPECT_THAT(open_of(out), ElementsAre("lm_head.weight", "w.bias", "w.weight"));
  EXPECT_EQ(out.open_extents.front().shape, (Shape{12, 4}));
  EXPECT_EQ(out.unstated, "whether the tensors joined from 3 shards are whole");
  // A scalar has none.
  EXPECT_THAT(open_of(state({}, {file_of(0, 0, {{"s", {}, {}}})})), IsEmpty());
}

TEST(ShardExtents, HaveNoGaps) {
  const ShardEvidence evidence =
      with_config(R"({"model_type": "llama", "vocab_size": 12, "hidden_size": 4})");
  std::vector<RankFile> files = shards_of({{"lm_head.weight", {12, 4}}}, 3, 3);
  EXPECT_EQ(state(evidence, files).unstated, "");
  files.erase(files.begin() + 1);
  for (const bool twice : {false, true}) {
    // The same part twice fills no gap.
    if (twice) files.push_back(files.back());
    const Completeness out = state(evidence, files);
    EXPECT_EQ(out.unstated, "where 16 of 48 elements of 'lm_head.weight' are");
    EXPECT_THAT(out.grounds, IsEmpty());
  }
}

TEST(ShardExtents, AreProvenByTheTotalSize) {
  ShardEvidence evidence;
  evidence.index = "model.safetensors.index.json";
  evidence.total_bytes = 4 * (48 + 12 + 48);
  const Completeness whole = state(evidence, shards_of(kModel, 3, 3));
  EXPECT_THAT(whole.open_extents, IsEmpty());
  EXPECT_THAT(whole.grounds, ElementsAre("the total size in model.safetensors.index.json"));
  const Completeness lacking = state(evidence, shards_of(kModel, 3, 2));
  ASSERT_EQ(lacking.missing.size(), 1U);
  EXPECT_THAT(lacking.missing.front().what(), HasSubstr("432 bytes"));
  EXPECT_THAT(lacking.missing.front().what(), HasSubstr("2 shards have 288"));
}

TEST(ShardExtents, AreShortByTheConfiguration) {
  const Completeness out =
      state(with_config(R"({"vocab_size": 12, "hidden_size": 4})"), shards_of(kModel, 3, 2));
  EXPECT_THAT(short_of(out), ElementsAre(HasSubstr("has 8 rows in 2 shards, but config.json states "
                                                   "a vocabulary of 12")));
  EXPECT_THAT(open_of(out), ElementsAre("w.bias", "w.weight"));
}

TEST(ShardExtents, AreProvenByATensorThatMoreShardsWouldHaveCutSmaller) {
  const ShardEvidence evidence = with_config(R"({"vocab_size": 12, "hidden_size": 4})");
  const Completeness out = state(evidence, shards_of(kModel, 3, 3));
  EXPECT_THAT(open_of(out), IsEmpty());
  EXPECT_THAT(out.short_parameters, IsEmpty());
  EXPECT_THAT(out.grounds, ElementsAre("config.json"));
  // 12 rows for 12 to 16 ranks are one row each: the larger tensor may have more shards.
  const std::map<std::string, Shape> rows{{"lm_head.weight", {12, 4}}, {"w", {16, 4}}};
  EXPECT_THAT(open_of(state(evidence, shards_of(rows, 16, 12))), ElementsAre("w"));
  // 10 rows in fours end in the third shard, for three ranks as for four: 4, 4, 2.
  const std::map<std::string, Shape> fours{{"lm_head.weight", {9, 4}}, {"w", {12, 4}}};
  const ShardEvidence nine = with_config(R"({"vocab_size": 9, "hidden_size": 4})");
  EXPECT_THAT(open_of(state(nine, shards_of(fours, 4, 3))), ElementsAre("w"));
}

TEST(ShardExtents, AreOpenInFilesThatAShardLacks) {
  const ShardEvidence evidence = with_config(R"({"vocab_size": 12, "hidden_size": 4})");
  std::vector<RankFile> files = shards_of({{"lm_head.weight", {12, 4}}}, 3, 3);
  files.push_back(file_of(0, 1, {{"w", {0, 0}, {4, 4}}}));
  files.push_back(file_of(1, 1, {{"w", {4, 0}, {4, 4}}}));
  std::sort(files.begin(), files.end(),
            [](const RankFile& a, const RankFile& b) { return a.rank < b.rank; });
  EXPECT_THAT(open_of(state(evidence, files)), ElementsAre("w"));
}

TEST(ShardExtents, AreShortByTensorsOfTheSameRows) {
  std::vector<RankFile> files = shards_of({{"w.weight", {12, 4}}}, 3, 2);
  files.front() = file_of(0, 0, {{"w.bias", {0}, {12}}, {"w.weight", {0, 0}, {4, 4}}});
  EXPECT_THAT(
      short_of(state({}, files)),
      ElementsAre(HasSubstr("parameter 'w.weight': has 8 rows in 2 shards, but 'w.bias' has "
                            "12 elements")));
  files.front() = file_of(
      0, 0, {{"lm_head.weight", {0, 0}, {12, 4}}, {"model.embed_tokens.weight", {0, 0}, {8, 4}}});
  files.back() = file_of(1, 0, {{"w", {0}, {1}}});
  EXPECT_THAT(short_of(state({}, files)), ElementsAre(HasSubstr("'lm_head.weight' has 12")));
  // A state has the rows of its weight.
  files.front() = file_of(0, 0, {{"adam_m.x", {0, 0}, {8, 4}}, {"x", {0, 0}, {12, 4}}});
  EXPECT_THAT(short_of(state({}, files)), ElementsAre(HasSubstr("parameter 'adam_m.x'")));
}

TEST(ShardExtents, LeaveToOthersWhatCannotBeJoined) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<RankFile> files{file_of(0, 0, {{"a", {0}, {4}}, {"b", {kMost}, {4}}}),
                                    file_of(1, 0, {{"a", {0, 0}, {4, 4}}})};
  ShardEvidence evidence;
  evidence.total_bytes = 7;
  const Completeness out = state(evidence, files);
  EXPECT_THAT(out.open_extents, IsEmpty());
  EXPECT_THAT(out.missing, IsEmpty());
}

}  // namespace
}  // namespace reshardfs
