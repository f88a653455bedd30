// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(ProgressLine, SaysHowFarHowFastAndHowLong) {
  EXPECT_EQ(progress_text(1 << 20, 4 << 20, 2), "1.0 MiB of 4.0 MiB, 512.0 KiB/s, 6 s left");
  EXPECT_EQ(progress_text(1 << 20, 200 << 20, 1),
            "1.0 MiB of 200.0 MiB, 1.0 MiB/s, 3 min 19 s left");
  EXPECT_EQ(progress_text(1, 7501, 1), "1 B of 7.3 KiB, 1 B/s, 2 h 5 min left");
}

TEST(ProgressLine, SaysNoRateBeforeThereIsOne) {
  EXPECT_EQ(progress_text(0, 1024, 0.2), "0 B of 1.0 KiB");
}

TEST(ProgressLine, NeverSaysMoreThanAll) {
  EXPECT_EQ(progress_text(2048, 1024, 1), "2.0 KiB of 2.0 KiB, 2.0 KiB/s, 0 s left");
}

}  // namespace
}  // namespace reshardfs
