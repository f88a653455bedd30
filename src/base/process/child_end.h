// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

namespace reshardfs {

/// Waits until a child process has ended, through signals too.
/// @param action "wait for ...", for the message. @param program that it runs; empty: this one.
/// @return its status as waitpid(2) gives it. @throws Error kIo if it is no child of this process.
int wait_for_end(pid_t child, const std::string& action, const std::string& program);

/// Waits for one byte on a pipe or socket. @return false if its other end was closed instead.
bool read_byte(int file) noexcept;

}  // namespace reshardfs
