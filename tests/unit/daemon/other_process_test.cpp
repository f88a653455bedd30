// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/other_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"

namespace reshardfs {
namespace {

/// A child that runs for as long as this lives.
class Child {
 public:
  /// @param prepare in the child
  template <typename Prepare>
  explicit Child(Prepare prepare) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    process_ = ::fork();
    if (process_ == 0) {
      prepare();
      const char ready = 'r';
      if (::write(ends[1], &ready, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { reap(); }

  pid_t process() const { return process_; }
  void kill() const {
    ::kill(process_, SIGKILL);
    siginfo_t end{};
    ::waitid(P_PID, static_cast<id_t>(process_), &end, WEXITED | WNOWAIT);
  }
  void reap() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_ = -1;
};

TEST(OtherProcess, HandlesASignal) {
  const Child with([] { static_cast<void>(::signal(SIGUSR2, [](int) {})); });
  const Child without([] { static_cast<void>(::signal(SIGUSR2, SIG_IGN)); });
  EXPECT_TRUE(handles_signal(with.process(), SIGUSR2));
  EXPECT_FALSE(handles_signal(with.process(), SIGUSR1));
  EXPECT_FALSE(handles_signal(without.process(), SIGUSR2));
}

TEST(OtherProcess, HasEnded) {
  Child child([] {});
  const pid_t process = child.process();
  EXPECT_FALSE(has_process_ended(process));
  ::kill(process, SIGSTOP);
  EXPECT_FALSE(has_process_ended(process));
  child.kill();
  EXPECT_TRUE(has_process_ended(process));
  child.reap();
  EXPECT_TRUE(has_process_ended(process));
  EXPECT_FALSE(handles_signal(process, SIGUSR2));
}

TEST(OtherProcess, HasDescendants) {
  const Child child([] {
    if (::fork() == 0) {
      for (;;) ::pause();
    }
  });
  const std::vector<pid_t> found = descendants_of(::getpid());
  EXPECT_NE(std::find(found.begin(), found.end(), child.process()), found.end());
  const std::vector<pid_t> its = descendants_of(child.process());
  ASSERT_EQ(its.size(), 1U);
  EXPECT_NE(std::find(found.begin(), found.end(), its.front()), found.end());
  ::kill(its.front(), SIGKILL);
}

TEST(OtherProcess, MayHaveAFileOpen) {
  const Descriptor file(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  ASSERT_GE(file.get(), 0);
  Child with([] {});
  const Child without([&] { ::close(file.get()); });
  EXPECT_TRUE(may_have_open(with.process(), file.get()));
  EXPECT_FALSE(may_have_open(without.process(), file.get()));
  const pid_t process = with.process();
  with.reap();
  EXPECT_FALSE(may_have_open(process, file.get()));
  EXPECT_TRUE(may_have_open(without.process(), -1));
}

}  // namespace
}  // namespace reshardfs
