// SPDX-License-Identifier: Apache-2.0
#include "view/hf/companions.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(Companions, AreWhatLoadsTheModelButNoTensors) {
  for (const char* name :
       {"config.json", "tokenizer.json", "chat_template.jinja", "tokenizer.model", "spm.model.v3",
        "qwen.tiktoken", "merges.txt", "vocab.txt", "modeling_gecko.py", "LICENSE", "LICENSE.txt",
        "NOTICE", "README.md"}) {
    EXPECT_TRUE(is_companion(name)) << name;
  }
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "x.pt",
        "README.ckpt", "m.gguf", "notes.txt", ".gitattributes", "config.yaml"}) {
    EXPECT_FALSE(is_companion(name)) << name;
  }
}

}  // namespace
}  // namespace reshardfs
