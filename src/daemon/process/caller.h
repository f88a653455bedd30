// SPDX-License-Identifier: Apache-2.0
/// A process that makes or takes over a mount for another one ends with it, until the mount is
/// ready: whoever ends a command that has not succeeded yet expects that nothing comes of it.
#pragma once

#include <sys/types.h>

#include <csignal>

namespace reshardfs {

/// What a process gets when the process that it works for has ended: it ends like SIGTERM does, and
/// a SignalGuard makes the same event of both. Unlike SIGTERM, no shell has programs ignore it.
inline constexpr int kCallerGoneSignal = SIGPWR;

/// From now on this process gets the signal when its parent ends. Not inherited by its children. It
/// ends here if the parent has ended already.
/// @param parent the process that has started this one.
void end_with(pid_t parent) noexcept;
/// From now on it does not.
void outlive_parent() noexcept;

}  // namespace reshardfs
