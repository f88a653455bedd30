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
  /// For a process that has left the terminal: logs to the system's log instead of standard error.
  /// Does nothing if there is a log file.
  void leave_terminal() const;
  /// Opens the log file again by its name, and uses the present level of set_log_level_source(). A
  /// failure is logged and changes nothing. Threads may log at the same time.
  void reload() const noexcept;
};

/// Where reload() asks for the level: a function that gives a --log-level, or nothing for the
/// default, and may throw Error. To be set before threads are started.
void set_log_level_source(std::function<std::string()> source);

/// "<3>" for an error, and so on, if standard error is systemd's journal, which takes priorities
/// like that; else nothing.
std::string journal_priority(spdlog::level::level_enum level);

}  // namespace reshardfs
