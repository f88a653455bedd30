// SPDX-License-Identifier: Apache-2.0
#include "view/hf/companions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace reshardfs {
namespace {

TEST(Companions, AreWhatLoadsTheModelButNoTensors) {
  for (const char* name :
       {"config.json", "tokenizer.json", "chat_template.jinja", "tokenizer.model", "spm.model.v3",
        "qwen.tiktoken", "merges.txt", "vocab.txt", "modeling_gecko.py", "LICENSE", "LICENSE.txt",
        "NOTICE", "README.md", "notes.txt", "config.yaml", "params.yml"}) {
    EXPECT_TRUE(is_companion(name)) << name;
  }
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "x.pt", "README.ckpt", "m.gguf", ".gitattributes", "training.log",
                           "latest_checkpointed_iteration.txt"}) {
    EXPECT_FALSE(is_companion(name)) << name;
  }
}

TEST(Companions, AreInFoldersOfModulesAndTemplates) {
  const test::TempDir directory;
  for (const char* name :
       {"config.json", "modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors",
        "2_Dense/.cache/a.json", "document_0_Static/a/b.bin", "head/x.json", "head_2/x.json",
        "additional_chat_templates/tool.jinja", "additional_chat_templates/a.bin", "_1/a.json",
        "1_/a.json", "a_1/a.json", "checkpoint-500/config.json", ".git/config.json",
        "onnx/model.json"}) {
    directory.write(name, "{}");
  }
  directory.write("modules.json", R"([{"path": ""}, {"path": "head"}, {"path": "../x"}, 1])");
  const Companions found = companions_in(directory.path(), nullptr);
  std::vector<std::string> files;
  for (const auto& file : found.files) files.push_back(file.string());
  EXPECT_THAT(
      files, testing::UnorderedElementsAre("config.json", "modules.json", "1_Pooling/config.json",
                                           "2_Dense/model.safetensors", "document_0_Static/a/b.bin",
                                           "head/x.json", "additional_chat_templates/tool.jinja"));
  EXPECT_THAT(found.left_out, testing::UnorderedElementsAre("1_", "_1", "a_1", "head_2", "onnx"));
}

}  // namespace
}  // namespace reshardfs
