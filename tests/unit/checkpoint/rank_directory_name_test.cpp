// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/ranks/rank_place.h"

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

std::vector<std::int64_t> ranks_in(std::string_view name) {
  std::vector<std::int64_t> ranks;
  for (const RankInName& rank : ranks_in_file_name(name)) ranks.push_back(rank.rank);
  return ranks;
}

TEST(RankInFileName, FollowsTheWord) {
  using Ranks = std::vector<std::int64_t>;
  EXPECT_EQ(ranks_in("llama_rank_3-3_100.ckpt"), Ranks{3});
  EXPECT_EQ(ranks_in("model_rank3.pt"), Ranks{3});
  EXPECT_EQ(ranks_in("rank_3.ckpt"), Ranks{3});
  EXPECT_EQ(ranks_in("tp_rank_3_pp_rank_0.pt"), (Ranks{3, 0}));
  for (const char* text : {"", "llama.ckpt", "llama_rank_.ckpt", "franken3.pt", "frank3.pt",
                           "lora_rank_16.pt", "adapter_rank_16.pt"}) {
    EXPECT_EQ(ranks_in(text), Ranks()) << text;
  }
}

TEST(RankName, IsOneOfRanksAndNumbers) {
  for (const char* text : {"rank_3", "rank3", "node3", "ckpt_3", "mp_rank_03", "pp0_tp3",
                           "mp_rank_03_001", "tp_rank_3_pp_rank_0"}) {
    const auto name = parse_rank_name(text);
    ASSERT_TRUE(name) << text;
    EXPECT_FALSE(name->is_first()) << text;
  }
  EXPECT_TRUE(parse_rank_name("pp0_tp0")->is_first());
  EXPECT_EQ(parse_rank_name("mp_rank_03")->form, parse_rank_name("mp_rank_00")->form);
  EXPECT_FALSE(parse_rank_name("pp2_tp4")->says_rank);
  for (const char* text : {"", "rank", "rank_", "3", "_3", "checkpoint-3", "step_3", "rank_3x",
                           "model_rank_3", "rank_99999999999999999999", "ep0", "ep_3"}) {
    EXPECT_FALSE(parse_rank_name(text)) << text;
  }
}

TEST(HyperRankName, HasNothingButTheNumber) {
  EXPECT_TRUE(is_hyper_rank_name("_rank0_.safetensors"));
  EXPECT_TRUE(is_hyper_rank_name("_rank12_.safetensors"));
  EXPECT_TRUE(is_hyper_rank_name("_rank0_.bytes"));
  for (const char* text : {"_rank_.safetensors", "_rankx_.safetensors", "_rank0_.pt",
                           "rank0_.safetensors", "_rank0.safetensors", "_.safetensors"}) {
    EXPECT_FALSE(is_hyper_rank_name(text)) << text;
  }
}

}  // namespace
}  // namespace reshardfs
