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

}  // namespace

StopSignals::StopSignals() {
  stopped = false;
  for (const int signal : kSignals) {
    struct sigaction old {};
    // What nohup has switched off stays so.
    if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (const int signal : kSignals) {
    struct sigaction old {};
    if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == note_signal) {
      std::signal(signal, SIG_DFL);
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
