// SPDX-License-Identifier: Apache-2.0
/// The cases of tests/goldenmap: the tensors of one side, and what the original converters made of
/// them.
#include <filesystem>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "map_samples.h"

namespace reshardfs::modelmap::testing {
namespace {

MemoryModel read_safetensors(const std::filesystem::path& path) {
  const std::string file = text_of_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const auto header = nlohmann::json::parse(file.substr(sizeof length, length));
  MemoryModel model;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    MemoryTensor tensor;
    tensor.dtype = dtype_from_safetensors(entry["dtype"].get<std::string>()).value();
    tensor.shape = entry["shape"].get<Shape>();
    const auto begin = entry["data_offsets"][0].get<std::size_t>();
    const auto end = entry["data_offsets"][1].get<std::size_t>();
    tensor.bytes.resize(end - begin);
    std::memcpy(tensor.bytes.data(), file.data() + sizeof length + length + begin, end - begin);
    model[name] = std::move(tensor);
  }
  return model;
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(repository() / "tests/goldenmap")) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GoldenMap : public ::testing::TestWithParam<std::string> {
 protected:
  GoldenMap()
      : directory_(repository() / "tests/goldenmap" / GetParam()),
        case_(nlohmann::json::parse(text_of_file(directory_ / "case.json"))),
        source_(read_safetensors(directory_ / "src.safetensors")) {
    options_.config = ModelConfig::parse(text_of_file(directory_ / "config.json"));
    // The other side is one rank's.
    options_.to_parts = [](const std::string&) { return Known<std::int64_t>::stated(1, "whole"); };
    if (!case_.contains("vars")) return;
    for (const auto& [name, value] : case_["vars"].items()) {
      options_.variables[name] = value.get<std::int64_t>();
    }
  }

  Direction direction() const {
    return case_["direction"] == "forward" ? Direction::kForward : Direction::kInverse;
  }
  ModelMap map() const { return load_model_map(directory_ / "map.toml", text_of_file); }

  std::filesystem::path directory_;
  nlohmann::json case_;
  MemoryModel source_;
  MapOptions options_;
};

TEST_P(GoldenMap, GivesWhatTheConverterGave) {
  options_.direction = direction();
  if (case_.contains("refused")) {
    const std::string message =
        refusal_of([&] { map_tensors(map(), tensors_of(source_), options_); });
    EXPECT_TRUE(std::regex_search(message, std::regex(case_["refused"].get<std::string>())))
        << message;
    return;
  }
  const MemoryModel expected = read_safetensors(directory_ / "expected.safetensors");
  const MemoryModel made = mapped(map(), source_, options_);
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(made.contains(name)) << name;
    EXPECT_EQ(made.at(name).dtype, tensor.dtype) << name;
    EXPECT_EQ(made.at(name).shape, tensor.shape) << name;
    EXPECT_TRUE(made.at(name).bytes == tensor.bytes) << name;
  }
  EXPECT_EQ(made.size(), expected.size());
}

TEST_P(GoldenMap, IsReadInTheDirectionThatItsNamesTell) {
  if (case_.contains("refused")) return;
  EXPECT_EQ(find_direction(map(), tensors_of(source_), options_), direction());
}

TEST_P(GoldenMap, ComesBackFromTheOtherSide) {
  if (case_.contains("refused")) return;
  options_.direction = direction();
  const MemoryModel there = mapped(map(), source_, options_);
  options_.direction =
      direction() == Direction::kForward ? Direction::kInverse : Direction::kForward;
  // operations_back has the cast of its own direction.
  if (GetParam().starts_with("operations")) return;
  const MemoryModel back = mapped(map(), there, options_);
  for (const auto& [name, tensor] : back) {
    // What is made without a source, as the copy of a tied embedding, need not have been there.
    const auto before = source_.find(name);
    if (before == source_.end()) continue;
    if (direction() == Direction::kInverse && GetParam().starts_with("megatron_llama")) continue;
    EXPECT_TRUE(before->second == tensor) << name;
  }
  options_.direction = direction();
  EXPECT_TRUE(mapped(map(), back, options_) == there);
}

TEST(GoldenMapOfExperts, ComesBackWithTransposedMatrices) {
  const auto directory = repository() / "tests/goldenmap/mixtral_legacy";
  const MemoryModel source = read_safetensors(directory / "src.safetensors");
  MapOptions options;
  options.config = ModelConfig::parse(text_of_file(directory / "config.json"));
  const ModelMap map = installed_map("mindformers-mixtral-gmm");
  const MemoryModel there = mapped(map, source, options);
  EXPECT_EQ(there.at("model.layers.1.feed_forward.ffn.w1.weight").shape, (Shape{8, 16, 20}));
  MemoryModel expected = source;
  for (const char* name : {"lm_head.weight"}) {
    if (!mapped(map, there, options).contains(name)) expected.erase(name);
  }
  EXPECT_TRUE(mapped(map, there, options) == expected);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenMap, ::testing::ValuesIn(case_names()),
                         [](const auto& chosen) { return chosen.param; });

}  // namespace
}  // namespace reshardfs::modelmap::testing
