// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/background.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include <gtest/gtest.h>
#include <sched.h>

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

/// A pipe, and a process that runs in the background what has the end to write to.
class Command {
 public:
  explicit Command(const std::function<int(int pipe, const Ready& ready)>& work) {
    EXPECT_EQ(::pipe(ends_.data()), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends_[0]);
      ::_exit(run_in_background([&](const Ready& ready) {
        ::alarm(60);  // where it would stay otherwise
        return work(ends_[1], ready);
      }));
    }
    ::close(ends_[1]);
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command() { ::close(ends_[0]); }

  /// What comes next; 0 when all processes have ended.
  char next() const {
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1 ? byte : '\0';
  }
  void kill(int signal) const { ::kill(process_, signal); }
  int wait() const {
    int status = 0;
    ::waitpid(process_, &status, 0);
    return status;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
  pid_t process_ = -1;
};

int begin_and_wait(int pipe, const Ready& /*ready*/) {
  EXPECT_EQ(::write(pipe, "b", 1), 1);
  for (;;) ::pause();
}

TEST(Background, AChildThatIsNotReadyEndsWithItsParent) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    const Command command(begin_and_wait);
    EXPECT_EQ(command.next(), 'b');
    command.kill(signal);
    EXPECT_EQ(command.next(), '\0') << "there is a process that may still write";
    command.wait();
  }
}

TEST(Background, AChildWhoseParentHasEndedIsNotReady) {
  const Command command([](int pipe, const Ready& ready) {
    // As if the parent ended at the very moment.
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGPWR);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    const pid_t parent = ::getppid();
    ::kill(parent, SIGKILL);
    while (::getppid() == parent) ::sched_yield();
    char answer = 'r';
    try {
      ready();
    } catch (const std::exception&) {
      answer = 'n';
    }
    return ::write(pipe, &answer, 1) == 1 ? 0 : 1;
  });
  EXPECT_EQ(command.next(), 'n');
  EXPECT_EQ(command.next(), '\0');
  command.wait();
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
