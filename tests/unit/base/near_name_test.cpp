// SPDX-License-Identifier: Apache-2.0
#include "base/text/near_name.h"

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text/glob.h"

namespace reshardfs::near_name_tests {
namespace {

const std::vector<std::string> kNames{"source", "src-strategy", "dst-strategy", "step", "steps"};

TEST(NearName, FindsWhatWasMisspelt) {
  EXPECT_EQ(near_name("sorce", kNames), "source");    // a letter left out
  EXPECT_EQ(near_name("sourrce", kNames), "source");  // one added
  EXPECT_EQ(near_name("soubce", kNames), "source");   // one changed
  EXPECT_EQ(near_name("stpe", kNames), "step");       // two swapped, which counts once
  EXPECT_EQ(near_name("dst_strategy", kNames), "dst-strategy");
}

TEST(NearName, PrefersTheFewestChanges) {
  EXPECT_EQ(near_name("steps", kNames), "steps");
  EXPECT_EQ(near_name("step", kNames), "step");
}

TEST(NearName, CompletesWhatOnlyOneNameBeginsWith) {
  EXPECT_EQ(near_name("dst", kNames), "dst-strategy");
  EXPECT_EQ(near_name("dst", {"dst-strategy", "dst-strategy"}), "dst-strategy");  // the same twice
  EXPECT_EQ(near_name("ste", {"step-one", "step-two"}), std::nullopt);            // which one?
  EXPECT_EQ(near_name("ds", kNames), std::nullopt);                               // says too little
}

TEST(NearName, AsksInAHint) {
  EXPECT_EQ(did_you_mean("sorce", kNames), "did you mean 'source'?");
  EXPECT_EQ(did_you_mean("sorce\n", {"source\n"}), "did you mean 'source\\n'?");
  EXPECT_EQ(did_you_mean("ranks", kNames), "");
  EXPECT_EQ(did_you_mean("qwen3", {"mindformers-qwen3", "mindformers-qwen3-moe", "llama"}),
            "did you mean one of 'mindformers-qwen3', 'mindformers-qwen3-moe'?");
  EXPECT_EQ(did_you_mean("wq", {"layers.0.attention.wq.weight"}), "");  // says too little
  EXPECT_EQ(did_you_mean("0.attention", {"layers.0.attention.wq.weight", "norm.weight"}),
            "did you mean 'layers.0.attention.wq.weight'?");
}

TEST(NearName, SaysNothingOfWhatIsFar) {
  EXPECT_EQ(near_name("ranks", kNames), std::nullopt);
  EXPECT_EQ(near_name("st", kNames), std::nullopt);  // half of it would have to be added
  EXPECT_EQ(near_name("", kNames), std::nullopt);
  EXPECT_EQ(near_name(std::string(100, 's'), {std::string(100, 's')}), std::nullopt);
  EXPECT_EQ(near_name("step", {}), std::nullopt);
}

}  // namespace
}  // namespace reshardfs::near_name_tests

namespace reshardfs {
namespace {

const std::vector<std::string> kNames{"model.embed.weight", "model.layers.0.attention.wq.weight",
                                      "model.layers.10.ffn_norm.weight", "adam_m.lm_head.weight"};

std::string meant(const std::string& glob) {
  const auto near = near_glob(glob, kNames);
  return near ? near->glob : "none";
}

TEST(NearGlob, MendsLettersAndKeepsWildcards) {
  EXPECT_EQ(meant("modle.*"), "model.*");                       // swapped
  EXPECT_EQ(meant("model.layer.*.wq.*"), "model.layer*.wq.*");  // left out
  EXPECT_EQ(meant("adamm_m.*"), "adam_m.*");                    // too many
  EXPECT_EQ(meant("*.atention.w?.weight"), "*.attention.w?.weight");
  EXPECT_EQ(meant("*.attention.wx.[abw]eight"), "*.attention.wq.[abw]eight");
  EXPECT_EQ(meant("Model.embed.weight"), "model.embed.weight");
}

TEST(NearGlob, AddsAStarAtAnEnd) {
  EXPECT_EQ(meant("model.layers.0"), "model.layers.0*");
  EXPECT_EQ(meant("wq.weight"), "*wq.weight");
  EXPECT_EQ(meant("attention"), "*attention*");
}

TEST(NearGlob, NamesTheNearestWhereNothingIsLikely) {
  const auto near = near_glob("completely.other.*", kNames);
  ASSERT_TRUE(near);
  EXPECT_EQ(near->glob, "");
  EXPECT_NE(near->name, "");
  EXPECT_FALSE(near_glob("w", {}));
}

TEST(NearGlob, EscapesWhatAGlobWouldTakeForAWildcard) {
  const auto near = near_glob("lis\\[0].wieght", {"list[0].weight"});
  ASSERT_TRUE(near);
  EXPECT_TRUE(glob_match(near->glob, "list[0].weight")) << near->glob;
}

TEST(NearGlob, WhatItSuggestsMatchesWhatItNames) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same each time
  const std::string letters = "model.layrs*?[]\\0w";
  for (int round = 0; round < 3000; ++round) {
    std::string glob;
    for (std::size_t i = random() % 12; i > 0; --i) glob += letters[random() % letters.size()];
    const auto near = near_glob(glob, kNames);
    ASSERT_TRUE(near);
    if (near->glob.empty()) continue;
    EXPECT_TRUE(glob_match(near->glob, near->name))
        << glob << " " << near->glob << " " << near->name;
  }
}

}  // namespace
}  // namespace reshardfs
