// SPDX-License-Identifier: Apache-2.0
/// A process that makes or takes over a mount for another process ends together with it until the
/// mount is ready: a user who interrupts a command that has not succeeded expects no mount.
#pragma once

#include <sys/types.h>

#include <csignal>

namespace reshardfs {

/// The signal that a process gets when its caller has ended. It ends the process like SIGTERM, and
/// a SignalGuard maps both to the same event. Unlike SIGTERM, shells never start programs with this
/// signal ignored.
inline constexpr int kCallerGoneSignal = SIGPWR;

/// From now on this process gets a signal when its parent ends; its children do not. If the parent
/// has already ended, the process ends here.
/// @param parent the process that has started this one.
/// @param signal kCallerGoneSignal, or SIGKILL for a process that need not clean up.
void end_with(pid_t parent, int signal = kCallerGoneSignal) noexcept;
/// Undoes end_with().
void outlive_parent() noexcept;

}  // namespace reshardfs
