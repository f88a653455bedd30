// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "checkpoint/ranks/rank_parts.h"

namespace reshardfs {
namespace {

TEST(RankDirectoryName, IsThatOfAKnownPattern) {
  for (const char* text : {"rank_3", "rank3", "node3", "ckpt_3", "rank_03"}) {
    const auto name = parse_rank_directory(text);
    ASSERT_TRUE(name) << text;
    EXPECT_EQ(name->rank, 3) << text;
    EXPECT_TRUE(std::string_view(text).starts_with(name->beginning)) << text;
  }
  for (const char* text : {"", "rank", "rank_", "rank_x", "rank_3x", "model", "ranks_3", "3"}) {
    EXPECT_FALSE(parse_rank_directory(text)) << text;
  }
}

TEST(RankInFileName, IsTheLastOne) {
  EXPECT_EQ(rank_in_file_name("llama_rank_3-3_100.ckpt"), 3);
  EXPECT_EQ(rank_in_file_name("a_rank_1_b_rank_0.ckpt"), 0);
  for (const char* text :
       {"", "llama.ckpt", "llama_rank_.ckpt", "rank_3.ckpt", "lora_rank_16.pt"}) {
    EXPECT_FALSE(rank_in_file_name(text)) << text;
  }
}

TEST(HyperRankName, HasNothingButTheNumber) {
  EXPECT_TRUE(is_hyper_rank_name("_rank0_.safetensors"));
  EXPECT_TRUE(is_hyper_rank_name("_rank12_.safetensors"));
  for (const char* text : {"_rank_.safetensors", "_rankx_.safetensors", "_rank0_.bytes",
                           "rank0_.safetensors", "_rank0.safetensors", "_.safetensors"}) {
    EXPECT_FALSE(is_hyper_rank_name(text)) << text;
  }
}

}  // namespace
}  // namespace reshardfs
