// SPDX-License-Identifier: Apache-2.0
#include "fuse/background.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <stdexcept>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using Ready = std::function<void()>;

TEST(Background, ReturnsTheExitCodeOfAChildThatNeverGetsReady) {
  EXPECT_EQ(run_in_background([](const Ready&) { return 2; }), 2);
  EXPECT_EQ(run_in_background([](const Ready&) { return 0; }), 0);
}

TEST(Background, ReportsAChildThatWasKilled) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_in_background([](const Ready&) {
              ::signal(SIGTERM, SIG_DFL);
              ::raise(SIGTERM);
              return 0;
            }),
            3);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("signal 15"), std::string::npos);
}

TEST(Background, NamesTheLimitThatAChildWasKilledFor) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_in_background([](const Ready&) {
              ::raise(SIGXCPU);
              return 0;
            }),
            3);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("ulimit -t"), std::string::npos);
}

TEST(Background, AnExceptionIsAFailureWithItsText) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_in_background([](const Ready&) -> int { throw std::runtime_error("no disk"); }), 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "reshardfs: no disk\n");
}

TEST(Background, ReturnsWhenTheChildIsReadyAndTheChildIsDetached) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t parent = ::getpid();
  // The child outlives the call; this process has to collect it like an orphan's new parent.
  const int result = run_in_background([&](const Ready& ready) {
    const bool still_attached = ::getsid(0) == ::getsid(parent);
    ready();
    ready();  // once more does no harm
    const bool detached = ::getsid(0) == ::getpid() && std::filesystem::current_path() == "/" &&
                          std::filesystem::read_symlink("/proc/self/fd/2") == "/dev/null";
    const char answer = still_attached && detached ? 'y' : 'n';
    return ::write(pipe[1], &answer, 1) == 1 ? 0 : 1;
  });
  EXPECT_EQ(result, 0);
  char answer = 0;
  EXPECT_EQ(::read(pipe[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  ::close(pipe[0]);
  ::close(pipe[1]);
  int status = -1;
  while (::waitpid(-1, &status, 0) < 0 && errno == EINTR) {
  }
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace reshardfs
