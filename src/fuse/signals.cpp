// SPDX-License-Identifier: Apache-2.0
#include "fuse/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace reshardfs {
namespace {

/// A handler gets nothing but the signal's number, so where it writes to has to be global.
std::atomic<int> event_pipe = -1;

void post_signal_event(int) {
  const int saved = errno;
  const char byte = static_cast<char>(Event::kSignal);
  [[maybe_unused]] const ssize_t written = ::write(event_pipe.load(), &byte, 1);
  errno = saved;
}

void do_nothing(int) {}

using Handler = void (*)(int);

Handler handler_of(int signal) {
  if (signal == SIGPIPE) return SIG_IGN;
  return signal == kKickSignal ? do_nothing : post_signal_event;
}

}  // namespace

SignalGuard::SignalGuard(const WakePipe& pipe) {
  event_pipe = pipe.write_end();
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous_[i]);
    if (previous_[i].sa_handler == SIG_IGN && kSignals[i] != kKickSignal) continue;
    struct sigaction action {};
    action.sa_handler = handler_of(kSignals[i]);
    // The kick is meant to interrupt a system call; the others are not.
    action.sa_flags = kSignals[i] == kKickSignal ? 0 : SA_RESTART;
    ::sigemptyset(&action.sa_mask);
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
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, &previous_);
}

SignalsBlocked::~SignalsBlocked() {
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

}  // namespace reshardfs
