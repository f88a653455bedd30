// SPDX-License-Identifier: Apache-2.0
#include "base/text/near_name.h"

#include <gtest/gtest.h>

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
