// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace reshardfs {

/// Leaves the terminal and the directory that the program was started from: a session of its own,
/// "/" as working directory, standard streams on /dev/null. @throws Error kIo
void detach_from_caller();

/// Runs `work` in a child process that becomes a daemon, and returns in the parent when the child
/// has called `ready` (then: 0) or has ended before (then: its exit code, its messages being on
/// the shared standard error). The fork comes first, so `work` may start threads.
///
/// The child ends with its parent (see caller.h) until `ready`, which detaches it: a session of its
/// own, "/" as working directory, standard streams on /dev/null. `ready` throws if the parent has
/// ended meanwhile, so that what `work` has done is undone: only who hears of success has a daemon.
/// @param listener the end to write to of a pipe; if nobody can read it any more, nobody waits for
///        the parent either. -1: there is none.
/// @return the exit code for the parent, which is to end with it: after 0 all signals stay blocked.
///         In the child this function does not return: the process ends with work's return value.
int run_in_background(const std::function<int(const std::function<void()>& ready)>& work,
                      int listener = -1);

}  // namespace reshardfs
