// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <utility>
#include <vector>

namespace reshardfs {

struct sigaction signal_action(void (*handler)(int), int flags) noexcept;

/// Installs handlers of signals; the destructor restores the former ones.
class SignalHandlers {
 public:
  SignalHandlers() = default;
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;
  ~SignalHandlers();

  /// @throws std::bad_alloc
  void set(int signal, const struct sigaction& action);
  /// The same, unless the signal is ignored: what nohup or a shell has switched off stays so.
  /// @throws std::bad_alloc
  void set_unless_ignored(int signal, const struct sigaction& action);

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

/// From now on the signal does nothing, and the call that caused it returns an error.
void ignore_signal(int signal) noexcept;

/// The kernel spares the first process of a container all signals without a handler: if this is
/// one, SIGINT, SIGTERM and SIGHUP end it from now on as they end any other.
void end_on_signals_as_first_process() noexcept;

/// While it lives, the first SIGINT, SIGTERM or SIGHUP sets a flag, so that a command can clean up;
/// the second one ends the process at once. Ten seconds later the process ends in any case, as a
/// thread may wait for a server or a disk that does not answer. One at a time.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  const std::atomic<bool>& flag() const noexcept;
  /// 128 and the signal's number, as shells count it.
  int exit_code() const noexcept;

 private:
  SignalHandlers handlers_;
};

/// While it exists, the thread that created it gets no signals, and threads that it starts inherit
/// this mask: only threads that wait for signals should get them, because a read of a source that a
/// signal interrupts might fail. Faults still reach the thread that causes them.
class NoSignals {
 public:
  /// @param but one that the thread gets all the same; 0: none.
  explicit NoSignals(int but = 0) noexcept {
    sigset_t all{};
    ::sigfillset(&all);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) ::sigdelset(&all, fault);
    if (but != 0) ::sigdelset(&all, but);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace reshardfs
