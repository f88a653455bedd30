// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/caller.h"

#include <sys/prctl.h>
#include <unistd.h>

namespace reshardfs {

void end_with(pid_t parent, int signal) noexcept {
  static_cast<void>(::signal(signal, SIG_DFL));
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::prctl(PR_SET_PDEATHSIG, signal);
  // It may have ended before the kernel was told.
  if (::getppid() != parent) static_cast<void>(::raise(signal));
}

void outlive_parent() noexcept {
  ::prctl(PR_SET_PDEATHSIG, 0);
}

}  // namespace reshardfs
