// SPDX-License-Identifier: Apache-2.0
/// What is said, and where: the process's one logger.
#pragma once

#include <functional>
#include <string>

#include <spdlog/common.h>

namespace reshardfs {

struct LogSettings {
  bool verbose = false;
  bool quiet = false;
  std::string level;  ///< empty: as verbose and quiet say
  std::string file;   ///< empty: standard error

  /// Sets up the process's logger: standard error, or the file.
  /// @throws Error kIo if the file cannot be opened.
  void apply() const;
  /// For a process that has left the terminal: the system's log takes the place of standard error.
  /// Nothing if there is a file.
  void leave_terminal() const;
  /// Opens the file again, under whatever its name stands for now, and takes over the level that
  /// set_log_level_source() has. What fails is logged, and then all stays as it is. Threads may log
  /// meanwhile.
  void reload() const noexcept;
};

/// Where reload() asks for the level: a function that gives a --log-level, or nothing for the
/// default, and may throw Error. To be set before threads are started.
void set_log_level_source(std::function<std::string()> source);

/// "<3>" for an error, and so on, if standard error is systemd's journal, which takes priorities
/// like that; else nothing.
std::string journal_priority(spdlog::level::level_enum level);

}  // namespace reshardfs
