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

TEST(ContentsText, ALineForEachParameter) {
  CheckpointContents contents;
  contents.parameters = {parameter("l.0.w"), parameter("norm", {4}, DType::kFloat32,
                                                       {Rank(0), Rank(0), Rank(1), Rank(2)})};
  EXPECT_EQ(listed_parameters(contents, {}),
            "PARAMETER  DTYPE    SLICE SHAPE  BYTES  RANKS\n"
            "l.0.w      Float16  [4, 2]          16  0\n"
            "norm       Float32  [4]             16  0-2\n");
  const FullShapes full{{"l.0.w", {8, 2}}};
  const std::string text = listed_parameters(contents, {&full});
  EXPECT_THAT(text, HasSubstr("[8, 2]"));
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
