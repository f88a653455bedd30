// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <utility>
#include <vector>

namespace reshardfs {

struct sigaction signal_action(void (*handler)(int), int flags) noexcept;

/// Handlers of signals for as long as it lives: then each is what it was before.
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

}  // namespace reshardfs
