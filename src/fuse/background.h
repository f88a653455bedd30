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
/// `ready` detaches the child: a session of its own, "/" as working directory, standard streams on
/// /dev/null.
/// @return the exit code for the parent. In the child this function does not return: the process
///         ends with work's return value.
int run_in_background(const std::function<int(const std::function<void()>& ready)>& work);

}  // namespace reshardfs
