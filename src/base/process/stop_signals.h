// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "base/process/signal_handlers.h"

namespace reshardfs {

/// From now on the signal does nothing, and the call that caused it returns an error.
void ignore_signal(int signal) noexcept;

/// The kernel spares the first process of a container all signals without a handler: if this is
/// one, SIGINT, SIGTERM and SIGHUP end it from now on as they end any other.
void end_on_signals_as_first_process() noexcept;

/// While it lives, the first SIGINT, SIGTERM or SIGHUP sets a flag, so that a command can clean up;
/// the second one ends the process at once. One at a time.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() = default;

  const std::atomic<bool>& flag() const noexcept;
  /// 128 and the signal's number, as shells count it.
  int exit_code() const noexcept;

 private:
  SignalHandlers handlers_;
};

}  // namespace reshardfs
