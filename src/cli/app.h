// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/process/log.h"

namespace reshardfs {

/// Exit codes of every command.
inline constexpr int kExitDone = 0;
inline constexpr int kExitDifference = 1;  ///< a check found a difference or damage
inline constexpr int kExitBadInput = 2;    ///< bad usage or bad input
inline constexpr int kExitIo = 3;          ///< an I/O error

/// Runs `work`; an exception becomes one line, which `tell` is given, and an exit code.
int report_errors(const std::function<int()>& work,
                  const std::function<void(const std::string&)>& tell = complain);

class StartedProgram;

/// Runs one command line. Errors are one line on standard error. @return the exit code.
int run_command_line(StartedProgram& program);

}  // namespace reshardfs
