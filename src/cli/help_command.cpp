// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/command.h"

namespace reshardfs {

void add_help_command(CLI::App& app, CommandAction& action) {
  // Its words are rewritten before they are parsed (see expand_help()), so it never runs.
  CLI::App* command = app.add_subcommand("help", "Show the help of a command");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *words, "A command, such as mount or strategy show");
  command->footer("Example:\n  reshardfs help strategy show");
  command->callback([&action, words] { action = [words] { return kExitDone; }; });
}

}  // namespace reshardfs
