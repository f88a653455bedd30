// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace spdlog::sinks {
class sink;
}

namespace reshardfs {

/// -v, -q and --log-file: what is said, and where.
struct LogArguments {
  bool verbose = false;
  bool quiet = false;
  std::string file;

  void add_to(CLI::App& command);
  /// Sets up the process's logger: standard error, or the file.
  /// @throws Error kIo if the file cannot be opened.
  void apply() const;
  /// For a process that has left the terminal: the system's log takes the place of standard error.
  /// Nothing if there is a file.
  void leave_terminal() const;

 private:
  void use(std::shared_ptr<spdlog::sinks::sink> sink) const;
};

}  // namespace reshardfs
