// SPDX-License-Identifier: Apache-2.0
#include "cli/near_name.h"

#include <gtest/gtest.h>

namespace reshardfs {
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

TEST(NearName, SaysNothingOfWhatIsFar) {
  EXPECT_EQ(near_name("ranks", kNames), std::nullopt);
  EXPECT_EQ(near_name("st", kNames), std::nullopt);  // half of it would have to be added
  EXPECT_EQ(near_name("", kNames), std::nullopt);
  EXPECT_EQ(near_name(std::string(100, 's'), {std::string(100, 's')}), std::nullopt);
  EXPECT_EQ(near_name("step", {}), std::nullopt);
}

}  // namespace
}  // namespace reshardfs
