// SPDX-License-Identifier: Apache-2.0
#include "cli/stop_signals.h"

#include <array>
#include <csignal>

namespace reshardfs {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

std::atomic<bool> stopped{false};
std::atomic<int> stop_signal{0};

void note_signal(int signal) {
  stop_signal = signal;
  stopped = true;
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

StopSignals::StopSignals() {
  stopped = false;
  for (const int signal : kSignals) {
    struct sigaction old {};
    // What nohup has switched off stays so.
    if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    set_handler(signal, note_signal, SA_RESTART | static_cast<int>(SA_RESETHAND));
  }
}

StopSignals::~StopSignals() {
  for (const int signal : kSignals) {
    struct sigaction old {};
    if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == note_signal) {
      set_handler(signal, SIG_DFL, 0);
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
