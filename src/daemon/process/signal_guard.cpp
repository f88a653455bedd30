// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/signal_guard.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "daemon/process/caller.h"
#include "fuse/worker_threads.h"

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

}  // namespace

SignalGuard::EventPipe::EventPipe(int pipe) noexcept : before_(event_pipe.exchange(pipe)) {}

SignalGuard::EventPipe::~EventPipe() {
  event_pipe = before_;
}

SignalGuard::SignalGuard(const WakePipe& pipe, Hangup hangup, MoreSignals more)
    : pipe_(pipe.write_end()) {
  for (const int signal : {SIGINT, SIGTERM, kCallerGoneSignal}) {
    handlers_.set_unless_ignored(signal, signal_action(post_signal_event, SA_RESTART));
  }
  if (hangup == Hangup::kEvent) {
    handlers_.set(SIGHUP, signal_action(post_hangup_event, SA_RESTART));
  } else {
    handlers_.set_unless_ignored(SIGHUP, signal_action(post_signal_event, SA_RESTART));
  }
  handlers_.set(SIGPIPE, signal_action(SIG_IGN, SA_RESTART));
  // The kick is meant to interrupt a system call; the others are not.
  handlers_.set(kKickSignal, signal_action(do_nothing, 0));
  if (more.reload) {
    struct sigaction reload = signal_action(SIG_DFL, SA_RESTART | SA_SIGINFO);
    reload.sa_sigaction = post_reload_event;
    handlers_.set(SIGUSR2, reload);
  }
  if (more.children) handlers_.set(SIGCHLD, signal_action(post_child_event, SA_RESTART));
}

}  // namespace reshardfs
