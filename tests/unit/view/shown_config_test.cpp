// SPDX-License-Identifier: Apache-2.0
#include "view/hf/shown_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs::shown_config_tests {
namespace {

TEST(ShownConfig, LeavesTheRestOfAConfigurationAsItIs) {
  EXPECT_EQ(
      edited_config(R"({"b": 1e-06, "quantization_config": {"x": [1]}, "a": [1, "é"], "c": null})",
                    {true}),
      "{\n  \"b\": 1e-06,\n  \"a\": [\n    1,\n    \"é\"\n  ],\n  \"c\": null\n}\n");
  test::expect_error(ErrorKind::kBadInput, {"an object"}, [] { edited_config("[1]", {true}); });
}

TEST(ShownConfig, StatesTheTypeWhereverOneIsStated) {
  const std::string text =
      R"({"torch_dtype":"float32","dtype":null,"text_config":{"dtype":"torch.float16"},)"
      R"("quantization_config":{"dtype":"float32"},"list":[{"dtype":"half"}],"other":"float32"})";
  EXPECT_THAT(stated_types(JsonDocument::parse(text)->value()),
              testing::ElementsAre("float32", "float16"));
  const std::string edited = edited_config(text, {false, "bfloat16"});
  const auto document = JsonDocument::parse(edited);
  ASSERT_TRUE(document);
  EXPECT_THAT(stated_types(document->value()), testing::ElementsAre("bfloat16", "bfloat16"));
  EXPECT_NE(edited.find("\"torch.bfloat16\""), std::string::npos);
  EXPECT_TRUE(document->value().find("dtype")->is_null());
  EXPECT_EQ(document->value().find("quantization_config")->find("dtype")->text(), "float32");
  EXPECT_EQ(document->value().find("other")->text(), "float32");
  EXPECT_EQ(edited_config(edited, {true, "float32"}).find("quantization_config"),
            std::string::npos);
}

TEST(ShownConfig, StatesAnotherQuantizationWhereOneIsStated) {
  const std::string text =
      R"({"compression_config":{},"text_config":{"quantization_config":{"a":1},"b":2}})";
  const NvStatement stated = nv_statement({"lm_head"});
  EXPECT_EQ(
      edited_config(text, {.quantization = "{\"c\":3}"}),
      "{\n  \"text_config\": {\n    \"quantization_config\": {\"c\":3},\n    \"b\": 2\n  }\n}\n");
  const auto config = JsonDocument::parse(stated.config);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->value()["quant_algo"].text(), "W4A16_NVFP4");
  EXPECT_NE(stated.beside.find("\"exclude_modules\""), std::string::npos);
}

}  // namespace
}  // namespace reshardfs::shown_config_tests
