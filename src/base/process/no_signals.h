// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <csignal>

namespace reshardfs {

/// As long as it lives, the thread that made it gets no signals: a thread that it starts has its
/// mask, and signals are for the threads that wait for them. A read of a source that a signal
/// breaks off might fail. Faults are for whoever causes them.
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
