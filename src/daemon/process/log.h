// SPDX-License-Identifier: Apache-2.0
/// What is said, and where: the process's one logger.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/engine.h"
#include "base/process/log_event.h"

namespace reshardfs {

/// Where the log goes to systemd's journal, that gets the fields of JSON with either.
enum class LogFormat : std::uint8_t {
  kText,
  kJson,  ///< an object a line
};

struct LogSettings {
  LogFormat format = LogFormat::kText;
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

/// Called by any thread. Must not throw.
using LogListener = void (*)(bool is_warning, const std::string& line);
/// For a process with a log of its own: warnings, errors and notes go there from now on.
RESHARDFS_ENGINE void set_log_listener(LogListener listener);

/// Where reload() asks for the level: a function that gives a --log-level, or nothing for the
/// default, and may throw Error. To be set before threads are started.
void set_log_level_source(std::function<std::string()> source);

/// In which complain() writes from now on.
void set_complaint_format(LogFormat format) noexcept;
/// Tells what ends a command on standard error, whatever the log's level and file are. Text begins
/// with "reshardfs: ". Inside a LogScope the event is that one's, else kCommandFailed.
void complain(const std::string& message);

}  // namespace reshardfs
