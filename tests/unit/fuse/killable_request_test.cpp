// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/killable_request.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "base/posix/read_write.h"

namespace reshardfs {
namespace {

TEST(KillableRequest, FindsAKillAmongThePendingSignals) {
  EXPECT_FALSE(tells_of_kill(""));
  EXPECT_FALSE(tells_of_kill("Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n"));
  EXPECT_TRUE(tells_of_kill("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
  EXPECT_TRUE(tells_of_kill("Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004100\n"));
  EXPECT_FALSE(tells_of_kill("Name:\tx\nSigPnd:\t0000000000001000\nShdPnd:\t0000000000000000\n"));
  EXPECT_TRUE(tells_of_kill("Name:\tx\nSigPnd:\t0000000000001100\nShdPnd:\t0000000000000000\n"));
  EXPECT_FALSE(tells_of_kill("Name:\tx\nSigPnd:\tfffffffffffffeff\nShdPnd:\t0000000000000000\n"));
  // Blocked and caught signals are others; and a program may call itself anything but a new line.
  EXPECT_FALSE(tells_of_kill("Name:\tSigPnd:\t100\nSigBlk:\t0000000000000100\n"));
}

TEST(KillableRequest, FindsAThreadOnItsWayOut) {
  EXPECT_FALSE(tells_of_exit(""));
  EXPECT_FALSE(tells_of_exit("12 (x) S 1 1 1 0 -1 4194304 100"));
  EXPECT_TRUE(tells_of_exit("12 (x) D 1 1 1 0 -1 4194308 100"));
  EXPECT_TRUE(tells_of_exit("12 (a) 1 2 3 (b) Z 1 1 1 0 -1 4 100")) << "a name may hold anything";
  EXPECT_TRUE(tells_of_exit("12 (x) D 1 1 1 0 -1 100 0")) << "a decimal number";
  EXPECT_FALSE(tells_of_exit("12 (x) S 4 4 4 4 4 3 4")) << "other fields are not flags";
  EXPECT_FALSE(tells_of_exit("12 (x) S 1 1"));
}

TEST(KillableRequest, AThreadThatLivesOrIsUnknownIsNotKilled) {
  EXPECT_FALSE(is_killed(::getpid()));
  EXPECT_FALSE(is_killed(0));
  EXPECT_FALSE(is_killed(-1));
  EXPECT_FALSE(is_killed(1 << 30));
}

TEST(KillableRequest, PendingSignalsOfAThreadAreFound) {
  // SIGKILL does not stay pending in a thread that runs; any other signal shows the way.
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  ::raise(SIGUSR1);
  EXPECT_FALSE(is_killed(::gettid()));
  const timespec no_time{};
  EXPECT_EQ(::sigtimedwait(&blocked, nullptr, &no_time), SIGUSR1);
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
}

TEST(KillableRequest, AProgramThatHasEndedIsOnItsWayOutUntilItIsWaitedFor) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(is_killed(child));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_killed(child));
}

/// What read_proc() finds in a file of this content, which has a name in /proc, too.
std::optional<std::string> read_content(const std::string& content) {
  const Descriptor file(::memfd_create("content", MFD_CLOEXEC));
  EXPECT_EQ(write_fully(file.get(), 0, std::as_bytes(std::span(content))), 0);
  ProcText text;
  text.fill('x');
  const std::string name = "fd/" + std::to_string(file.get());
  if (!read_proc(::getpid(), name.c_str(), text)) return std::nullopt;
  return text.data();
}

TEST(ReadProc, GivesTheBeginningOfAFile) {
  EXPECT_EQ(read_content("1"), "1");
  EXPECT_EQ(read_content("short\n"), "short\n");
  EXPECT_EQ(read_content(std::string(8191, 'y')), std::string(8191, 'y'));
  EXPECT_EQ(read_content(std::string(9000, 'y')), std::string(8191, 'y'));
}

TEST(ReadProc, JoinsWhatTheKernelGivesInPieces) {
  ProcText text;
  text.fill('\0');
  ASSERT_TRUE(read_proc(::getpid(), "smaps", text));
  EXPECT_EQ(std::string(text.data()).size(), text.size() - 1);
}

TEST(ReadProc, FindsNothingInAFileThatIsEmptyOrMissingOrCannotBeRead) {
  EXPECT_EQ(read_content(""), std::nullopt);
  ProcText text;
  EXPECT_FALSE(read_proc(::getpid(), "no such file", text));
  EXPECT_FALSE(read_proc(::getpid(), "mem", text)) << "nothing is mapped at its beginning";
}

TEST(ReadProc, WorksWithoutStandardInput) {
  const Descriptor former(::dup(STDIN_FILENO));
  ::close(STDIN_FILENO);
  ProcText text;
  EXPECT_TRUE(read_proc(::getpid(), "stat", text));
  ::dup2(former.get(), STDIN_FILENO);
}

TEST(ReadProc, ClosesTheFile) {
  const auto next_descriptor = [] {
    const int next = ::dup(STDIN_FILENO);
    ::close(next);
    return next;
  };
  const int before = next_descriptor();
  ProcText text;
  ASSERT_TRUE(read_proc(::getpid(), "stat", text));
  EXPECT_EQ(next_descriptor(), before);
}

}  // namespace
}  // namespace reshardfs
