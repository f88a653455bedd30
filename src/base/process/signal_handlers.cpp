// SPDX-License-Identifier: Apache-2.0
#include "base/process/signal_handlers.h"

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

}  // namespace reshardfs
