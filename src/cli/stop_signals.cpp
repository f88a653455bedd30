// SPDX-License-Identifier: Apache-2.0
#include "cli/stop_signals.h"

#include <unistd.h>

#include <array>
#include <csignal>

namespace reshardfs {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

std::atomic<bool> stopped{false};
std::atomic<int> stop_signal{0};

/// With the exit code by which shells tell of a signal.
void end_now(int signal) {
  ::_exit(128 + signal);
}

/// The second one ends the process at once. For most processes the kernel sees to that, by
/// resetting the handler.
void note_signal(int signal) {
  if (stopped) end_now(signal);
  stop_signal = signal;
  stopped = true;
}

/// Whether this process handles it in a way that another part of the program may replace.
bool is_replaceable(int signal) noexcept {
  struct sigaction old {};
  // What nohup has switched off stays so.
  return ::sigaction(signal, nullptr, &old) != 0 || old.sa_handler != SIG_IGN;
}

/// Where there is no handler.
void (*usual_handler() noexcept)(int) {
  return ::getpid() == 1 ? end_now : SIG_DFL;
}

void set_handler(int signal, void (*handler)(int), int flags) noexcept {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void ignore_signal(int signal) noexcept {
  set_handler(signal, SIG_IGN, 0);
}

void end_on_signals_as_first_process() noexcept {
  if (::getpid() != 1) return;
  for (const int signal : kSignals) {
    if (is_replaceable(signal)) set_handler(signal, end_now, 0);
  }
}

StopSignals::StopSignals() {
  stopped = false;
  for (const int signal : kSignals) {
    if (!is_replaceable(signal)) continue;
    const int reset = ::getpid() == 1 ? 0 : static_cast<int>(SA_RESETHAND);
    set_handler(signal, note_signal, SA_RESTART | reset);
  }
}

StopSignals::~StopSignals() {
  for (const int signal : kSignals) {
    struct sigaction old {};
    if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == note_signal) {
      set_handler(signal, usual_handler(), 0);
    }
  }
}

const std::atomic<bool>& StopSignals::flag() const noexcept {
  return stopped;
}

int StopSignals::exit_code() const noexcept {
  return 128 + stop_signal;
}

}  // namespace reshardfs
