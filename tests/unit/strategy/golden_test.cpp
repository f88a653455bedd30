// SPDX-License-Identifier: Apache-2.0
/// The strategy files of the golden cases, as MindSpore's tools write them.
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "strategy/files/strategy_file.h"
#include "strategy_samples.h"

namespace reshardfs::testing {
namespace {

namespace fs = std::filesystem;

class GoldenStrategies : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef RESHARDFS_GOLDEN_DIR
    root_ = RESHARDFS_GOLDEN_DIR;
    if (!fs::is_directory(root_)) GTEST_SKIP() << root_ << " is not there";
#else
    GTEST_SKIP() << "built without RESHARDFS_GOLDEN_DIR";
#endif
  }

  /// Files of one extension that hold a strategy, whole or of one stage.
  std::vector<fs::path> files(const std::string& extension) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      const fs::path& path = entry.path();
      if (path.extension() == extension && path.stem().string().find("strategy") == 4) {
        found.push_back(path);
      }
      if (path.extension() == extension && path.stem().string().starts_with("strategy_")) {
        found.push_back(path);
      }
    }
    return found;
  }

  /// src_stages and dst_stages, and the same in JSON, each with its merged file.
  std::vector<std::pair<fs::path, fs::path>> stage_directories() const {
    std::vector<std::pair<fs::path, fs::path>> found;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      const std::string name = entry.path().filename().string();
      const std::string side = name.substr(0, 3);
      const fs::path merged = entry.path().parent_path() / (side + "_strategy");
      if (name == side + "_stages") found.emplace_back(entry, merged.string() + ".ckpt");
      if (name == side + "_stages_json") found.emplace_back(entry, merged.string() + ".json");
    }
    return found;
  }

  fs::path root_;
};

/// The fields of a protobuf file, each with its tag, sorted: the order of items is arbitrary.
std::vector<std::string> sorted_fields(const std::string& bytes) {
  std::vector<std::string> fields;
  std::size_t position = 0;
  const auto read_varint = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0; position < bytes.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes[position++]);
      value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (position < bytes.size()) {
    const std::size_t begin = position;
    const std::uint64_t tag = read_varint();
    const std::uint64_t value = read_varint();
    if ((tag & 7U) == 2) position += value;
    fields.push_back(bytes.substr(begin, position - begin));
  }
  std::sort(fields.begin(), fields.end());
  return fields;
}

TEST_F(GoldenStrategies, LoadAndSurviveBothWriters) {
  const TemporaryDirectory scratch;
  std::vector<fs::path> all = files(".ckpt");
  EXPECT_GT(all.size(), 100U);
  for (const fs::path& json : files(".json")) all.push_back(json);
  for (const fs::path& path : all) {
    SCOPED_TRACE(path);
    const Strategy strategy = Strategy::load(path);
    EXPECT_EQ(json_bytes(strategy), to_json(strategy).size());
    EXPECT_EQ(protobuf_bytes(strategy), to_protobuf(strategy).size());
    for (const Strategy& again :
         {Strategy::load(scratch.write("again.ckpt", to_protobuf(strategy))),
          Strategy::load(scratch.write("again.json", to_json(strategy)))}) {
      EXPECT_EQ(without_shapes(stages_of(again)), without_shapes(stages_of(strategy)));
      EXPECT_EQ(again.operators(), strategy.operators());
      EXPECT_EQ(again.first_stage(), strategy.first_stage());
      EXPECT_EQ(again.stage_prefixed(), strategy.stage_prefixed());
    }
  }
}

TEST_F(GoldenStrategies, AreTheSameInProtobufAndJson) {
  int compared = 0;
  for (const fs::path& json : files(".json")) {
    fs::path protobuf = json;
    if (json.parent_path().filename().string().ends_with("_stages_json")) {
      const std::string side = json.parent_path().filename().string().substr(0, 3);
      protobuf = json.parent_path().parent_path() / (side + "_stages") / json.filename();
    }
    protobuf.replace_extension(".ckpt");
    SCOPED_TRACE(json);
    const Strategy from_json = Strategy::load(json);
    const Strategy from_protobuf = Strategy::load(protobuf);
    auto layouts = without_shapes(stages_of(from_json));
    // This one case has offsets of zero in its JSON file alone.
    if (json.parent_path().filename() == "merge_uneven") {
      Layout table = layouts[0].at("embedding_table");
      table.indices_offset.clear();
      layouts[0].insert_or_assign("embedding_table", table);
    }
    EXPECT_EQ(layouts, stages_of(from_protobuf));
    EXPECT_EQ(from_json.operators(), from_protobuf.operators());
    EXPECT_EQ(from_json.first_stage(), from_protobuf.first_stage());
    EXPECT_EQ(from_json.stage_prefixed(), from_protobuf.stage_prefixed());
    ++compared;
  }
  EXPECT_GT(compared, 90);
}

TEST_F(GoldenStrategies, AreTheSameMergedAndInStages) {
  const auto directories = stage_directories();
  EXPECT_GT(directories.size(), 15U);
  for (const auto& [directory, merged] : directories) {
    SCOPED_TRACE(directory);
    const Strategy stages = Strategy::load(directory);
    const Strategy whole = Strategy::load(merged);
    EXPECT_GT(stages.stage_count(), 1);
    EXPECT_EQ(stages_of(stages), stages_of(whole));
    EXPECT_EQ(stages.operators(), whole.operators());
    EXPECT_TRUE(whole.stage_prefixed());
    EXPECT_FALSE(stages.stage_prefixed());
    // Merging: the same bytes as the original's merged file, but for the order of items.
    if (merged.extension() == ".json") {
      EXPECT_EQ(to_json(stages), file_bytes(merged));
      EXPECT_EQ(json_bytes(stages), file_bytes(merged).size());
      EXPECT_EQ(protobuf_bytes(stages), to_protobuf(stages).size());
    } else {
      EXPECT_EQ(sorted_fields(to_protobuf(stages)), sorted_fields(file_bytes(merged)));
    }
  }
}

TEST_F(GoldenStrategies, JsonIsWrittenByteForByte) {
  for (const fs::path& path : files(".json")) {
    EXPECT_EQ(to_json(Strategy::load(path)), file_bytes(path)) << path;
    EXPECT_EQ(json_bytes(Strategy::load(path)), file_bytes(path).size()) << path;
  }
}

TEST_F(GoldenStrategies, ProtobufIsWrittenByteForByteButForTheOrderOfItems) {
  int compared = 0;
  for (const fs::path& path : files(".ckpt")) {
    const std::string bytes = file_bytes(path);
    // Nested maps that cut no dimension twice are written flat.
    const std::string name = path.lexically_relative(root_).string();
    if (name == "nested_to_flat/src_strategy.ckpt" ||
        name == "flat_to_nested_opt/dst_strategy.ckpt") {
      continue;
    }
    EXPECT_EQ(sorted_fields(to_protobuf(Strategy::load(path))), sorted_fields(bytes)) << path;
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

TEST_F(GoldenStrategies, NestedMapsAreRead) {
  const Strategy strategy = Strategy::load(root_ / "nested_to_flat" / "src_strategy.ckpt");
  const StageLayouts& layouts = strategy.stage(0);
  EXPECT_EQ(layouts.at("model.layers.0.attention.wq.weight").tensor_map, (TensorMap{{1, 0}, {}}));
  EXPECT_EQ(layouts.at("model.layers.0.attention.wq.bias").tensor_map, (TensorMap{{1, 0}}));
  EXPECT_EQ(layouts.at("model.layers.0.ffn_norm.weight").tensor_map, (TensorMap{{}}));
}

TEST_F(GoldenStrategies, ADashInANameIsPartOfIt) {
  const Strategy strategy = Strategy::load(root_ / "err_dash_in_name" / "src_strategy.ckpt");
  EXPECT_TRUE(strategy.contains("net.layer-norm.weight"));
  EXPECT_FALSE(strategy.stage_prefixed());
}

TEST_F(GoldenStrategies, TheFileOfAStageAloneKnowsItsStage) {
  for (const char* name : {"src_strategy.ckpt", "src_strategy.json"}) {
    const Strategy strategy = Strategy::load(root_ / "by_stage_path" / name);
    EXPECT_EQ(strategy.first_stage(), 1);
    EXPECT_EQ(strategy.devices_per_stage(), 2);
    EXPECT_FALSE(strategy.stage_prefixed());
  }
}

TEST_F(GoldenStrategies, SharedParametersAreInSeveralStages) {
  const Strategy strategy = Strategy::load(root_ / "pp2_shared_embedding" / "src_strategy.ckpt");
  EXPECT_EQ(strategy.stages_of("model.tok_embeddings.embedding_weight"),
            (std::vector<std::int64_t>{0, 1}));
}

}  // namespace
}  // namespace reshardfs::testing
