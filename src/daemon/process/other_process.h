// SPDX-License-Identifier: Apache-2.0
/// What /proc says about another process; where it says nothing, the answer is the careful one.
#pragma once

#include <sys/types.h>

#include <vector>

namespace reshardfs {

/// Whether the process has a handler for the signal, which would end it otherwise. False if it has
/// ended, or cannot be looked into.
bool handles_signal(pid_t process, int signal) noexcept;

/// Also true for a process that has ended but whose parent has not noticed yet.
bool has_process_ended(pid_t process) noexcept;

/// Its children, also those that it has inherited, as far as they can be seen.
/// @throws std::bad_alloc
std::vector<pid_t> children_of(pid_t process);
/// With theirs. @throws std::bad_alloc
std::vector<pid_t> descendants_of(pid_t process);

/// Whether the process may have a file open that this process has open under `descriptor`: compares
/// paths, so that any descriptor of the same device counts. True if it cannot be looked into, false
/// if it has ended.
bool may_have_open(pid_t process, int descriptor) noexcept;

}  // namespace reshardfs
