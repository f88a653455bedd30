// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/block_scales.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json/json_value.h"
#include "checkpoint/quantized/dequantized_content.h"
#include "support/errors.h"
#include "unit/checkpoint/recording_source.h"

namespace reshardfs::block_scales_tests {
namespace {

using test::expect_error;
using test::RecordingSource;

std::optional<BlockShape> block_in(const std::string& quantization) {
  return stated_block(JsonDocument::parse(quantization)->value(), "config.json");
}

TEST(BlockScales, AreStatedByTheConfiguration) {
  EXPECT_EQ(block_in(R"({"weight_block_size": [128, 64]})"), (BlockShape{128, 64}));
  EXPECT_EQ(block_in(R"({"weight_block_size": null})"), std::nullopt);
  EXPECT_EQ(block_in("{}"), std::nullopt);
  for (const char* const wrong : {"128", "[128]", "[0, 128]", "[128, -1]", "[1, 2, 3]",
                                  "[128, 1.5]", "[128, \"x\"]", "{\"a\": 1, \"b\": 2}"}) {
    expect_error(ErrorKind::kBadInput, {"config.json", "no pair of lengths"},
                 [&] { block_in(R"({"weight_block_size": )" + std::string(wrong) + "}"); });
  }
}

TEST(QuantizationConfig, NamesItsMethods) {
  const auto methods = [](const std::string& text) {
    return quantization_methods(JsonDocument::parse(text)->value());
  };
  EXPECT_EQ(
      methods(
          R"({"quantization_config": {"quant_method": "gptq", "bits": 4}, "a": {"compression_config":
      {"quant_method": "compressed-tensors", "format": "pack-quantized"}, "quantization_config": {}}})"),
      (std::vector<std::string>{"gptq 4 bits", "compressed-tensors pack-quantized",
                                "a method without a name"}));
  EXPECT_EQ(
      methods(R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 64]},
                       "text_config": {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 64]}}})"),
      (std::vector<std::string>{"fp8 in blocks of 128 x 64"}));
  EXPECT_TRUE(methods(R"({"quantization_config": null})").empty());
}

TEST(QuantizationConfig, KnowsTypesThatCodesHave) {
  EXPECT_TRUE(may_be_quantized(DType::kInt32, {8, 2}));
  EXPECT_TRUE(may_be_quantized(DType::kFloat8E4M3, {8, 2}));
  EXPECT_FALSE(may_be_quantized(DType::kInt32, {8}));
  EXPECT_FALSE(may_be_quantized(DType::kInt64, {1, 512}));
  EXPECT_FALSE(may_be_quantized(DType::kBFloat16, {8, 2}));
}

TEST(BlockScales, HaveTheNamesAndShapesOfTheirWeights) {
  EXPECT_EQ(weight_of_scale("a.weight_scale_inv"), "a.weight");
  EXPECT_EQ(weight_of_scale("a.weight_scale"), "");
  EXPECT_EQ(weight_of_scale("_scale_inv"), "");
  EXPECT_EQ(scale_shape({256, 129}, {128, 128}), (Shape{2, 2}));
  EXPECT_EQ(scale_shape({5, 1, 128}, {128, 64}), (Shape{5, 1, 2}));
  EXPECT_EQ(scale_shape({128}, {128, 128}), std::nullopt);
}

/// Two rows of three weights, 1.0 each but for the first, with a scale for each column.
struct Content {
  Content() {
    QuantizedWeight weight;
    weight.codes = {weights, ByteRange(0, 6), DType::kFloat8E4M3, {2, 3}};
    weight.row_bytes = 3;
    weight.shape = {2, 3};
    weight.scales = {scales, ByteRange(0, 3), DType::kFloat8E8M0, {1, 3}};
    weight.block = {2, 1};
    content = std::make_unique<DequantizedContent>(weight, weights);
  }
  std::shared_ptr<RecordingSource> weights =
      std::make_shared<RecordingSource>(std::string("\x08\x38\x38\x38\x38\x38", 6), "weights", 1);
  std::shared_ptr<RecordingSource> scales =
      std::make_shared<RecordingSource>(std::string("\x80\x7f\x7e", 3), "scales", 1);
  std::unique_ptr<DequantizedContent> content;
};

TEST(DequantizedContent, HasTheSameBytesHoweverItIsRead) {
  const Content made;
  // 2^-6 * 2, 1 * 1, 1 / 2; then 2, 1, 1 / 2.
  const std::string all("\x00\x3d\x80\x3f\x00\x3f\x00\x40\x80\x3f\x00\x3f", 12);
  ASSERT_EQ(made.content->size(), all.size());
  for (std::size_t begin = 0; begin < all.size(); ++begin) {
    for (std::size_t end = begin; end <= all.size(); ++end) {
      std::string out(end - begin, '?');
      made.content->read({begin, std::as_writable_bytes(std::span(out))});
      EXPECT_EQ(out, all.substr(begin, end - begin)) << begin << " to " << end;
    }
  }
}

}  // namespace
}  // namespace reshardfs::block_scales_tests
