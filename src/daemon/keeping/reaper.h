// SPDX-License-Identifier: Apache-2.0
/// The child processes of a supervisor: signals to them, and their ends.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <utility>
#include <vector>

#include "daemon/process/other_process.h"
#include "daemon/process/signal_guard.h"
#include "fuse/wake_pipe.h"

namespace reshardfs {

/// What waits for children, in the words of the events of signals.
class Reaper {
 public:
  /// Of a child that a signal has ended.
  static constexpr int kExitIo = 3;

  /// To all children.
  static void pass_on(int signal) noexcept {
    try {
      for (const pid_t child : children_of(::getpid())) ::kill(child, signal);
    } catch (const std::exception&) {
      // No memory: the signal is dropped, and its sender sees no effect.
    }
  }

  /// The event of a signal. What no child takes waits for pass_on_waiting().
  /// @return whether to look for children that have ended.
  bool take(Event event) noexcept {
    if (event == Event::kSignal) tell_to_end();
    if (event == Event::kHangup) hangup_waits_ = !offer(SIGHUP);
    if (event == Event::kReload) reload_waits_ = !offer(SIGUSR2);
    if (event == Event::kReplace) replace_waits_ = !offer(SIGUSR2, kReplaceValue);
    return event == Event::kChild;
  }

  /// A process that handles the signals serves the mount.
  void pass_on_waiting() noexcept {
    if (std::exchange(hangup_waits_, false)) take(Event::kHangup);
    if (std::exchange(reload_waits_, false)) take(Event::kReload);
    if (std::exchange(replace_waits_, false)) take(Event::kReplace);
  }

  /// @return whether there are no children any more.
  bool reap() noexcept {
    for (;;) {
      int status = 0;
      const pid_t child = ::waitpid(-1, &status, WNOHANG);
      if (child == 0) {
        tell_inherited_to_end();
        return false;
      }
      if (child < 0 && errno == EINTR) continue;
      if (child < 0) return true;
      if (child == started_) started_ = 0;
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : kExitIo;
      if (WIFSIGNALED(status)) signal_ = WTERMSIG(status);
    }
  }

  /// The last one that this process has started itself; 0: it has ended.
  pid_t started() const noexcept { return started_; }
  void set_started(pid_t child) noexcept { started_ = child; }
  bool told_to_end() const noexcept { return told_to_end_; }
  int exit_code() const noexcept { return exit_code_; }
  /// The last one that has ended a child.
  int signal() const noexcept { return signal_; }

 private:
  /// To those alone that handle it: one that is only being started would be ended by it.
  /// @return whether there was one.
  static bool offer(int signal, int value = 0) noexcept {
    bool taken = false;
    try {
      for (const pid_t child : children_of(::getpid())) {
        if (!handles_signal(child, signal)) continue;
        taken = ::sigqueue(child, signal, {.sival_int = value}) == 0 || taken;
      }
    } catch (const std::exception&) {
      // Out of memory: the sender sees that nothing happens.
    }
    return taken;
  }

  void tell_to_end() noexcept {
    told_to_end_ = true;
    told_.clear();
    try {
      for (const pid_t child : children_of(::getpid())) tell(child);
    } catch (const std::exception&) {
      // No memory: the sender sees that nothing happens.
    }
  }

  /// A process that had handed the mount over has not told the one that serves it, which was its
  /// child until it ended.
  void tell_inherited_to_end() noexcept {
    if (!told_to_end_) return;
    try {
      for (const pid_t child : children_of(::getpid())) {
        const bool is_told = std::find(told_.begin(), told_.end(), child) != told_.end();
        if (!is_told && handles_signal(child, SIGTERM)) tell(child);
      }
    } catch (const std::exception&) {
      // Out of memory: the sender sees that nothing happens.
    }
  }

  void tell(pid_t child) {
    ::kill(child, SIGTERM);
    told_.push_back(child);
  }

  bool told_to_end_ = false;
  std::vector<pid_t> told_;  ///< the children that have been told to end
  bool hangup_waits_ = false;
  bool reload_waits_ = false;
  bool replace_waits_ = false;
  pid_t started_ = 0;
  int exit_code_ = 0;
  int signal_ = 0;
};

}  // namespace reshardfs
