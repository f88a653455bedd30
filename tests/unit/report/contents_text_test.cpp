// SPDX-License-Identifier: Apache-2.0
#include "report/text/contents_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CheckpointParameter parameter(const std::string& name, const Shape& shape = {4, 2},
                              DType dtype = DType::kFloat16,
                              const std::vector<Rank>& ranks = {Rank(0)}) {
  return {name, dtype, shape, 16, ranks};
}

std::size_t count_lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(ContentsText, OneLineForEqualLayers) {
  CheckpointContents contents;
  for (int i = 0; i < 36; ++i) {
    contents.parameters.push_back(parameter("layers." + std::to_string(i) + ".wq.weight"));
    contents.parameters.push_back(parameter("layers." + std::to_string(i) + ".norm", {4}));
  }
  EXPECT_EQ(grouped_parameters(contents, {}),
            "PARAMETER                 DTYPE    SLICE SHAPE  BYTES EACH  RANKS\n"
            "layers.{0..35}.wq.weight  Float16  [4, 2]               16  0\n"
            "layers.{0..35}.norm       Float16  [4]                  16  0\n");
  EXPECT_EQ(count_lines(listed_parameters(contents, {})), 1 + 72);
}

TEST(ContentsText, WhatDiffersHasALineOfItsOwn) {
  CheckpointContents contents;
  contents.parameters = {parameter("l.0.w"),
                         parameter("l.1.w", {2, 2}),
                         parameter("l.2.w", {4, 2}, DType::kFloat32),
                         parameter("l.3.w", {4, 2}, DType::kFloat16, {Rank(1)}),
                         parameter("l.4.w"),
                         parameter("l.5.v")};
  const std::string text = grouped_parameters(contents, {});
  EXPECT_THAT(text, HasSubstr("l.{0,4}.w  Float16  [4, 2]"));
  for (const char* name : {"l.1.w ", "l.2.w ", "l.3.w ", "l.5.v "}) {
    EXPECT_THAT(text, HasSubstr(name));
  }
  EXPECT_EQ(count_lines(text), 6);
}

TEST(ContentsText, FullShapesCountToo) {
  CheckpointContents contents;
  contents.parameters = {parameter("l.0.w"), parameter("l.1.w"), parameter("l.2.w")};
  const FullShapes full{{"l.0.w", {8, 2}}, {"l.2.w", {8, 2}}};
  const std::string text = grouped_parameters(contents, {&full});
  EXPECT_THAT(text, HasSubstr("l.{0,2}.w"));
  EXPECT_THAT(text, HasSubstr("no layout"));
  EXPECT_THAT(listed_parameters(contents, {nullptr, "SHAPE"}), Not(HasSubstr("SLICE")));
}

TEST(ContentsText, ByteItems) {
  CheckpointContents contents;
  const auto json_of = [](const CheckpointContents& shown) {
    JsonWriter json;
    write_contents(json, shown, nullptr);
    return json.take();
  };
  EXPECT_EQ(byte_items_text(contents), "");
  EXPECT_THAT(json_of(contents), Not(HasSubstr("byte_items")));
  contents.byte_items = {{"epoch", 5}};
  EXPECT_EQ(byte_items_text(contents), "NO TENSOR  BYTES\nepoch          5\n");
  EXPECT_THAT(json_of(contents), HasSubstr(R"("byte_items":[{"name":"epoch","bytes":5}])"));
}

}  // namespace
}  // namespace reshardfs
