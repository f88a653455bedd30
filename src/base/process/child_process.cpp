// SPDX-License-Identifier: Apache-2.0
#include "base/process/child_process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <sched.h>

#include "reshardfs/error.h"

#include "base/posix/directory_stream.h"
#if __has_include(<linux/close_range.h>)
#include <linux/close_range.h>
#endif

namespace reshardfs {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

/// What the child needs: until it runs the program, it has this process's memory, and must neither
/// take memory nor locks.
struct Plan {
  const char* program = nullptr;
  char* const* argv = nullptr;
  const char* directory = nullptr;  ///< or none
  std::span<const std::pair<int, int>> descriptors{};
  bool closes_others = false;
  std::span<const int> others{};  ///< those that are known; others may come until the child starts
  sigset_t blocked{};
  int error = 0;
};

/// Handlers would run in the child with this process's memory.
void reset_handlers() noexcept {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
}

/// @return whether `from` is open under the number `to`, in the program too.
bool pass(int from, int to) noexcept {
  return from == to ? ::fcntl(to, F_SETFD, 0) == 0 : ::dup2(from, to) == to;
}

/// Linux 5.11 marks all of them, older kernels those that are known.
void close_others(std::span<const int> known) noexcept {
#if defined(SYS_close_range) && defined(CLOSE_RANGE_CLOEXEC)
  constexpr unsigned kFirst = STDERR_FILENO + 1;
  if (::syscall(SYS_close_range, kFirst, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
#endif
  for (const int other : known) ::fcntl(other, F_SETFD, FD_CLOEXEC);
}

bool prepare(const Plan& plan) noexcept {
  reset_handlers();
  // Before those that are passed on, which then stay open.
  if (plan.closes_others) close_others(plan.others);
  for (const auto& [from, to] : plan.descriptors) {
    if (!pass(from, to)) return false;
  }
  if (plan.directory != nullptr && ::chdir(plan.directory) != 0) return false;
  return ::sigprocmask(SIG_SETMASK, &plan.blocked, nullptr) == 0;
}

/// In the child, while the parent waits.
int run_child(void* data) noexcept {
  Plan& plan = *static_cast<Plan*>(data);
  if (prepare(plan)) {
    if (std::strchr(plan.program, '/') != nullptr) {
      ::execv(plan.program, plan.argv);
    } else {
      ::execvp(plan.program, plan.argv);
    }
  }
  plan.error = errno;
  ::_exit(127);
}

/// The descriptors that a program would get, but for the standard streams.
std::vector<int> inherited() {
  std::vector<int> all;
  for (const int number : open_descriptors()) {
    const int flags = number > STDERR_FILENO ? ::fcntl(number, F_GETFD) : -1;
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) all.push_back(number);
  }
  return all;
}

}  // namespace

Spawned spawn(const ProgramRun& run) {
  std::vector<std::string> words = run.words;
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::vector<int> others = run.closes_others ? inherited() : std::vector<int>();
  std::vector<std::byte> stack(kStackBytes);

  Plan plan{.program = run.program.c_str(),
            .argv = argv.data(),
            .directory = run.directory.empty() ? nullptr : run.directory.c_str(),
            .descriptors = run.descriptors,
            .closes_others = run.closes_others,
            .others = others};
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  plan.blocked = before;
  if (run.unblocks_signals) ::sigemptyset(&plan.blocked);
  // The stack grows down, from an address that is aligned for any type.
  const auto end = reinterpret_cast<std::uintptr_t>(stack.data() + stack.size());
  void* const top = stack.data() + stack.size() - end % 64;
  const pid_t child = ::clone(run_child, top, CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
  const Spawned spawned{.process = child, .error = child < 0 ? errno : plan.error};
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0 || spawned.error == 0) return spawned;
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {.process = -1, .error = spawned.error};
}

int wait_for_end(pid_t child, const std::string& action, const std::string& program) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw io_error(action, program, errno);
  }
  return status;
}

bool read_byte(int file) noexcept {
  char byte = 0;
  ssize_t count = 0;
  do {
    count = ::read(file, &byte, 1);
  } while (count < 0 && errno == EINTR);
  return count == 1;
}

}  // namespace reshardfs
