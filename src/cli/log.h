// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

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
};

}  // namespace reshardfs
