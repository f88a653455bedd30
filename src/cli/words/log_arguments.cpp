// SPDX-License-Identifier: Apache-2.0
#include "cli/words/log_arguments.h"

namespace reshardfs {

void LogArguments::add_to(CLI::App& command) {
  auto* more = command.add_flag("-v,--verbose", verbose, "Report what was found and chosen");
  auto* less = command.add_flag("-q,--quiet", quiet, "Report errors only");
  less->excludes(more);
  command.add_option("--log-level", level, "Log level; -v is info, -q is error")
      ->type_name("error|warning|info|debug")
      ->check(CLI::IsMember({"error", "warning", "info", "debug"}).description(""))
      ->default_str("warning")
      ->take_last();
  command
      .add_option("--log-file", file,
                  "Write the log to this file; by default, to standard error, and from the "
                  "background to the system log")
      ->type_name("FILE")
      ->take_last();
}

}  // namespace reshardfs
