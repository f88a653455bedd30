// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/caller.h"

#include <sys/prctl.h>
#include <unistd.h>

namespace reshardfs {

void end_with(pid_t parent) noexcept {
  static_cast<void>(::signal(kCallerGoneSignal, SIG_DFL));
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, kCallerGoneSignal);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::prctl(PR_SET_PDEATHSIG, kCallerGoneSignal);
  // It may have ended before the kernel was told.
  if (::getppid() != parent) static_cast<void>(::raise(kCallerGoneSignal));
}

void outlive_parent() noexcept {
  ::prctl(PR_SET_PDEATHSIG, 0);
}

}  // namespace reshardfs
