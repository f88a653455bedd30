// SPDX-License-Identifier: Apache-2.0
#include "base/process/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "base/posix/read_write.h"

namespace reshardfs::spawn_tests {
namespace {

ProgramRun shell(const std::string& command) {
  return {.program = "sh", .words = {"sh", "-c", command}};
}

int exit_code(const Spawned& spawned) {
  EXPECT_EQ(spawned.error, 0);
  const int status = wait_for_end(spawned.process, "wait for it", "sh");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// What it writes to standard output.
std::string output_of(ProgramRun run) {
  Pipe pipe;
  run.descriptors.emplace_back(pipe.writer.get(), STDOUT_FILENO);
  const Spawned spawned = spawn(run);
  pipe.writer = Descriptor();
  std::string text;
  EXPECT_EQ(read_to_end(pipe.reader.get(), text), 0);
  EXPECT_EQ(exit_code(spawned), 0);
  return text;
}

TEST(Spawn, RunsAProgram) {
  EXPECT_EQ(exit_code(spawn(shell("exit 7"))), 7);
  EXPECT_EQ(exit_code(spawn({.program = "/bin/sh", .words = {"sh", "-c", "exit 8"}})), 8);
  EXPECT_EQ(output_of(shell("echo words")), "words\n");
}

TEST(Spawn, TellsWhyItCannot) {
  const Spawned nothing = spawn({.program = "/no/such/program", .words = {"none"}});
  EXPECT_EQ(nothing.process, -1);
  EXPECT_EQ(nothing.error, ENOENT);
  EXPECT_EQ(spawn({.program = "no-such-program-anywhere", .words = {"none"}}).error, ENOENT);
  EXPECT_EQ(spawn({.program = "/dev/null", .words = {"none"}}).error, EACCES);
  ProgramRun run = shell("exit 0");
  run.directory = "/no/such/directory";
  EXPECT_EQ(spawn(run).error, ENOENT);
  run.directory.clear();
  run.descriptors = {{-1, STDERR_FILENO + 1}};
  EXPECT_EQ(spawn(run).error, EBADF);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

TEST(Spawn, BeginsInItsDirectory) {
  ProgramRun run = shell("pwd");
  run.directory = "/proc";
  EXPECT_EQ(output_of(run), "/proc\n");
}

TEST(Spawn, PassesDescriptorsAlone) {
  const Descriptor forgotten(::open("/dev/null", O_RDONLY));  // NOLINT: not close-on-exec
  const Descriptor passed(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::string is_open = "test -e /proc/$$/fd/";
  const std::string number = std::to_string(forgotten.get());
  ProgramRun run = shell(is_open + "77 && ! " + is_open + number);
  run.descriptors = {{passed.get(), 77}};
  run.closes_others = true;
  EXPECT_EQ(exit_code(spawn(run)), 0);
  run.closes_others = false;
  EXPECT_EQ(exit_code(spawn(run)), 1);
  // Under its own number, too.
  run = shell(is_open + std::to_string(passed.get()));
  run.descriptors = {{passed.get(), passed.get()}};
  run.closes_others = true;
  EXPECT_EQ(exit_code(spawn(run)), 0);
  EXPECT_NE(::fcntl(passed.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Spawn, UnblocksSignals) {
  sigset_t term;
  sigset_t before;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, &before);
  ProgramRun run = shell("kill -TERM $$; exit 3");
  EXPECT_EQ(exit_code(spawn(run)), 3);
  run.unblocks_signals = true;
  EXPECT_EQ(exit_code(spawn(run)), -1);
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, &before, &now);
  EXPECT_EQ(::sigismember(&now, SIGTERM), 1);
  EXPECT_EQ(::sigismember(&now, SIGINT), ::sigismember(&before, SIGINT));
}

volatile sig_atomic_t handled = 0;

TEST(Spawn, NoHandlerRunsInTheProgram) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { handled = 1; };
  ::sigaction(SIGUSR1, &action, &before);
  EXPECT_EQ(exit_code(spawn(shell("kill -USR1 $$; exit 3"))), -1);
  EXPECT_EQ(handled, 0);
  ::raise(SIGUSR1);
  EXPECT_EQ(handled, 1) << "this process still has it";
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace reshardfs::spawn_tests
