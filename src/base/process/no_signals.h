// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <csignal>

namespace reshardfs {

/// While it exists, the thread that created it gets no signals, and threads that it starts inherit
/// this mask: only threads that wait for signals should get them, because a read of a source that a
/// signal interrupts might fail. Faults still reach the thread that causes them.
class NoSignals {
 public:
  /// @param but one that the thread gets all the same; 0: none.
  explicit NoSignals(int but = 0) noexcept {
    sigset_t all{};
    ::sigfillset(&all);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) ::sigdelset(&all, fault);
    if (but != 0) ::sigdelset(&all, but);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace reshardfs
