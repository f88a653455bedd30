// SPDX-License-Identifier: Apache-2.0
#include "base/text/near_glob.h"

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text/glob.h"

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
