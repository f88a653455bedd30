// SPDX-License-Identifier: Apache-2.0
#include "fuse/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace reshardfs {
namespace {

/// A handler gets nothing but the signal's number, so where it writes to has to be global.
std::atomic<int> event_pipe = -1;

void post(Event event) {
  const int saved = errno;
  const char byte = static_cast<char>(event);
  [[maybe_unused]] const ssize_t written = ::write(event_pipe.load(), &byte, 1);
  errno = saved;
}

void post_signal_event(int) {
  post(Event::kSignal);
}

void post_hangup_event(int) {
  post(Event::kHangup);
}

void post_reload_event(int, siginfo_t* info, void*) {
  const bool replace = info->si_code == SI_QUEUE && info->si_value.sival_int == kReplaceValue;
  post(replace ? Event::kReplace : Event::kReload);
}

void post_child_event(int) {
  post(Event::kChild);
}

void do_nothing(int) {}

using Handler = void (*)(int);

Handler handler_of(int signal, Hangup hangup) {
  if (signal == SIGPIPE) return SIG_IGN;
  if (signal == SIGHUP && hangup == Hangup::kEvent) return post_hangup_event;
  if (signal == SIGCHLD) return post_child_event;
  return signal == kKickSignal ? do_nothing : post_signal_event;
}

}  // namespace

SignalGuard::SignalGuard(const WakePipe& pipe, Hangup hangup, MoreSignals more) {
  event_pipe = pipe.write_end();
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous_[i]);
    if (kSignals[i] == SIGUSR2 && !more.reload) continue;
    if (kSignals[i] == SIGCHLD && !more.children) continue;
    struct sigaction action {};
    ::sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    if (kSignals[i] == SIGUSR2) {
      action.sa_sigaction = post_reload_event;
      action.sa_flags |= SA_SIGINFO;
    } else {
      action.sa_handler = handler_of(kSignals[i], hangup);
      const bool ends = action.sa_handler == post_signal_event || action.sa_handler == SIG_IGN;
      if (previous_[i].sa_handler == SIG_IGN && ends) continue;
      // The kick is meant to interrupt a system call; the others are not.
      if (kSignals[i] == kKickSignal) action.sa_flags = 0;
    }
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

SignalGuard::~SignalGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &previous_[i], nullptr);
  }
  event_pipe = -1;
}

SignalsBlocked::SignalsBlocked() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR2, SIGCHLD, kCallerGoneSignal})
    ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, &previous_);
}

SignalsBlocked::~SignalsBlocked() {
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

}  // namespace reshardfs
