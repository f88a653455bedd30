// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/background.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/descriptor_message.h"
#include "base/posix/poll_until.h"
#include "base/process/child_process.h"
#include "base/process/resource_limits.h"
#include "daemon/process/caller.h"

namespace reshardfs {
namespace {

constexpr int kExitFailure = 3;

}  // namespace

void detach_from_caller() {
  ::setsid();
  if (::chdir("/") != 0) throw io_error("enter", "/", errno);
  Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) throw io_error("open", "/dev/null", errno);
  static_cast<void>(std::fflush(nullptr));
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), stream);
  if (null.get() <= STDERR_FILENO) static_cast<void>(null.release());
}

namespace {

[[noreturn]] void run_child(Descriptor parent,
                            const std::function<int(const std::function<void()>&)>& work) {
  bool told = false;
  const auto ready = [&] {
    if (told) return;
    told = true;
    detach_from_caller();
    // From here on the socket tells whether the parent is there.
    outlive_parent();
    ::send(parent.get(), "", 1, MSG_NOSIGNAL);
    const bool heard = read_byte(parent.get());
    parent = Descriptor();
    if (!heard) throw Error(ErrorKind::kIo, "the command ended before the mount was ready");
  };
  int exit_code = kExitFailure;
  try {
    exit_code = work(ready);
  } catch (const std::exception& error) {
    std::cerr << "reshardfs: " << error.what() << '\n';
  }
  std::exit(exit_code);
}

enum class Outcome : std::uint8_t { kReady, kChildEnded, kNobodyListens };

/// Waits for the child, and answers it.
Outcome read_readiness(int child_socket, int listener) {
  std::array<pollfd, 2> polls{{{child_socket, POLLIN, 0}, {listener, 0, 0}}};
  poll_until(polls, kForever);
  if ((polls[1].revents & (POLLERR | POLLHUP)) != 0) return Outcome::kNobodyListens;
  if (!read_byte(child_socket)) return Outcome::kChildEnded;
  // A signal that comes before this ends the parent, and with it the child; one that comes later
  // finds the mount there, and does not keep the parent from saying so.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  return ::send(child_socket, "", 1, MSG_NOSIGNAL) == 1 ? Outcome::kReady : Outcome::kChildEnded;
}

/// What may have sent it, for the end of a message.
std::string reason_for(int signal) {
  if (signal == SIGXCPU) return "; raise the limit of its time: ulimit -t";
  // The kernel does so to free memory, or somebody did.
  if (signal == SIGKILL)
    return "; if nobody did that, memory was short: " + limit_hint(Resource::kMemory);
  return "";
}

/// The exit code of a child that has ended, or is about to, without having been ready.
int exit_code_of(pid_t child) {
  const int status = wait_for_end(child, "wait for the background process", "");
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  std::cerr << "reshardfs: the background process was ended by signal " << signal << " ("
            << ::strsignal(signal) << ")" << reason_for(signal) << '\n';
  return kExitFailure;
}

}  // namespace

int run_in_background(const std::function<int(const std::function<void()>& ready)>& work,
                      int listener) {
  auto [own, its] = message_sockets();
  static_cast<void>(std::fflush(nullptr));  // or the child would write the same output again
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    throw io_error("start a background process", "", errno).hint(limit_hint(Resource::kThreads));
  }
  if (child == 0) {
    end_with(parent);
    own = Descriptor();
    run_child(std::move(its), work);
  }
  its = Descriptor();
  const Outcome outcome = read_readiness(own.get(), listener);
  if (outcome == Outcome::kNobodyListens) ::kill(child, kCallerGoneSignal);
  own = Descriptor();
  return outcome == Outcome::kReady ? 0 : exit_code_of(child);
}

}  // namespace reshardfs
