// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/captured_stderr.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

void write_line(const std::string& text) {
  EXPECT_EQ(::write(STDERR_FILENO, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(CapturedStderr, TakesWhatThisProcessAndOthersWrite) {
  testing::internal::CaptureStderr();
  std::string taken;
  {
    CapturedStderr captured;
    write_line("one\n");
    EXPECT_EQ(std::system("echo two >&2"), 0);
    taken = captured.finish();
    write_line("behind\n");
  }
  EXPECT_EQ(taken, "one\ntwo\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "behind\n");
}

TEST(CapturedStderr, LosesNothingThatNobodyTook) {
  testing::internal::CaptureStderr();
  {
    const CapturedStderr captured;
    write_line("one\n");
  }
  write_line("two\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\ntwo\n");
}

TEST(CapturedStderr, LeavesStandardErrorToProgramsThatAreStartedLater) {
  testing::internal::CaptureStderr();
  CapturedStderr captured;
  EXPECT_EQ(captured.finish(), "");
  EXPECT_EQ(captured.finish(), "");  // once more
  EXPECT_EQ(std::system("echo here >&2"), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "here\n");
}

}  // namespace
}  // namespace reshardfs
