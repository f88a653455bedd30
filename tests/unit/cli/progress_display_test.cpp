// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_display.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

const Progress::Values kValues{"writing", "rank_3/a.ckpt", 1 << 20, 4 << 20, 1, 4};

TEST(ProgressText, HasBytesRateTimeAndFile) {
  EXPECT_EQ(progress_text(kValues, 2, 0),
            "writing 1.0 MiB/4.0 MiB (25%), 512.0 KiB/s, 6 s left, 1 of 4 files, rank_3/a.ckpt");
}

TEST(ProgressText, ShortensTheNameAlone) {
  const std::string numbers = "writing 1.0 MiB/4.0 MiB (25%), 512.0 KiB/s, 6 s left";
  EXPECT_EQ(progress_text(kValues, 2, 79), numbers + ", rank_3/a.ckpt");
  EXPECT_EQ(progress_text(kValues, 2, numbers.size() + 12), numbers + ", ran...ckpt");
  EXPECT_EQ(progress_text(kValues, 2, numbers.size() + 11), numbers);
  EXPECT_EQ(progress_text(kValues, 2, 20).size(), 20U);
}

TEST(ProgressText, DoesNotGuessBeforeItKnows) {
  EXPECT_EQ(progress_text({"writing", "", 0, 100, 0, 1}, 5, 0),
            "writing 0 B/100 B (0%), 0 of 1 files");
  EXPECT_EQ(progress_text({"writing", "", 0, 0, 0, 0}, 0, 80), "writing 0 B/0 B (0%)");
}

TEST(ProgressText, EscapesNames) {
  EXPECT_EQ(progress_text({"writing", "a\x1b[2J", 0, 1, 0, 1}, 0, 0).find('\x1b'),
            std::string::npos);
}

TEST(ProgressText, SaysLongTimesShortly) {
  const auto left = [](std::uint64_t total) {
    return progress_text({"w", "", 1, total + 1, 0, 1}, 1, 0);
  };
  EXPECT_NE(left(59).find(" 59 s left"), std::string::npos);
  EXPECT_NE(left(61).find(" 1 min 1 s left"), std::string::npos);
  EXPECT_NE(left(7260).find(" 2 h 1 min left"), std::string::npos);
}

TEST(ProgressText, WithoutAPhaseSaysHowFarHowFastAndHowLong) {
  EXPECT_EQ(progress_text({"", "", 1 << 20, 4 << 20, 0, 0}, 2, 80),
            "1.0 MiB of 4.0 MiB, 512.0 KiB/s, 6 s left");
  EXPECT_EQ(progress_text({"", "", 1 << 20, 200 << 20, 0, 0}, 1, 80),
            "1.0 MiB of 200.0 MiB, 1.0 MiB/s, 3 min 19 s left");
  EXPECT_EQ(progress_text({"", "", 1, 7501, 0, 0}, 1, 0), "1 B of 7.3 KiB, 1 B/s, 2 h 5 min left");
}

TEST(ProgressText, WithoutAPhaseSaysNoRateBeforeThereIsOne) {
  EXPECT_EQ(progress_text({"", "", 0, 1024, 0, 0}, 0.2, 80), "0 B of 1.0 KiB");
}

TEST(ProgressText, WithoutAPhaseNeverSaysMoreThanAll) {
  EXPECT_EQ(progress_text({"", "", 2048, 1024, 0, 0}, 1, 80),
            "2.0 KiB of 2.0 KiB, 2.0 KiB/s, 0 s left");
}

/// What a display of this progress writes to standard error, by a command that calls
/// sum_up_at_end() and sees any work as long.
std::string written(const Progress& progress, bool quiet) {
  testing::internal::CaptureStderr();
  {
    ProgressDisplay display(progress, quiet, ShowProgress::kOnTerminal);
    display.sum_up_at_end({});
  }
  return testing::internal::GetCapturedStderr();
}

TEST(ProgressDisplay, SumsUpLongWork) {
  Progress progress;
  progress.add_bytes(3 << 20);
  EXPECT_EQ(written(progress, false).find("reshardfs: 3.0 MiB read in 0.0 s"), 0U);
  EXPECT_EQ(written(progress, true), "");
}

TEST(ProgressDisplay, SumsUpNoWorkThatIsShortOrFailed) {
  Progress progress;
  EXPECT_EQ(written(progress, false), "");
  progress.add_bytes(1);
  testing::internal::CaptureStderr();
  {
    ProgressDisplay display(progress, false, ShowProgress::kOnTerminal);
    display.sum_up_at_end(std::chrono::hours(1));
  }
  try {
    ProgressDisplay display(progress, false, ShowProgress::kOnTerminal);
    display.sum_up_at_end({});
    throw std::runtime_error("failed");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
}

}  // namespace
}  // namespace reshardfs
