// SPDX-License-Identifier: Apache-2.0
#include "base/process/signals.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <string_view>

namespace reshardfs {

struct sigaction signal_action(void (*handler)(int), int flags) noexcept {
  struct sigaction action {};
  ::sigemptyset(&action.sa_mask);
  action.sa_handler = handler;
  action.sa_flags = flags;
  return action;
}

SignalHandlers::~SignalHandlers() {
  for (auto before = before_.rbegin(); before != before_.rend(); ++before) {
    ::sigaction(before->first, &before->second, nullptr);
  }
}

void SignalHandlers::set(int signal, const struct sigaction& action) {
  auto& [number, before] = before_.emplace_back(signal, action);
  ::sigaction(number, &action, &before);
}

void SignalHandlers::set_unless_ignored(int signal, const struct sigaction& action) {
  struct sigaction now {};
  if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) return;
  set(signal, action);
}

namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
constexpr unsigned kSecondsToStop = 10;

std::atomic<bool> stopped{false};
std::atomic<int> stop_signal{0};

/// With the exit code by which shells tell of a signal.
void end_now(int signal) {
  ::_exit(128 + signal);
}

/// Some thread still waits for a server or a disk.
void end_late(int /*signal*/) {
  constexpr std::string_view kLine = "reshardfs: interrupted; the storage did not answer in time\n";
  static_cast<void>(!::write(STDERR_FILENO, kLine.data(), kLine.size()));
  end_now(stop_signal);
}

/// The second one ends the process at once. For most processes the kernel sees to that, by
/// resetting the handler.
void note_signal(int signal) {
  if (stopped) end_now(signal);
  stop_signal = signal;
  stopped = true;
  ::alarm(kSecondsToStop);
}

}  // namespace

void ignore_signal(int signal) noexcept {
  const struct sigaction action = signal_action(SIG_IGN, 0);
  ::sigaction(signal, &action, nullptr);
}

void end_on_signals_as_first_process() noexcept {
  if (::getpid() != 1) return;
  const struct sigaction action = signal_action(end_now, 0);
  for (const int signal : kSignals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

StopSignals::StopSignals() {
  stopped = false;
  // For the first process the kernel has no handler that ends it.
  const int reset = ::getpid() == 1 ? 0 : static_cast<int>(SA_RESETHAND);
  for (const int signal : kSignals) {
    handlers_.set_unless_ignored(signal, signal_action(note_signal, SA_RESTART | reset));
  }
  handlers_.set(SIGALRM, signal_action(end_late, 0));
}

StopSignals::~StopSignals() {
  ::alarm(0);
}

const std::atomic<bool>& StopSignals::flag() const noexcept {
  return stopped;
}

int StopSignals::exit_code() const noexcept {
  return 128 + stop_signal;
}

}  // namespace reshardfs
