// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <string>
#include <vector>

#include "base/process/resource_limits.h"
#include "base/process/signals.h"
#include "cli/app.h"
#include "daemon/process/process_end.h"
#include "daemon/process/process_start.h"
#include "daemon/started_program.h"

int main(int argc, char** argv) {
  reshardfs::occupy_standard_streams();
  // A limit of the size of files is an error like a full disk, whatever is written.
  reshardfs::ignore_signal(SIGXFSZ);
  reshardfs::end_on_signals_as_first_process();
  if (!reshardfs::keep_memory_for_cleaning_up()) {
    reshardfs::complain_of_memory();
    return reshardfs::kExitIo;
  }
  if (!reshardfs::has_enough_stack()) {
    reshardfs::complain("the stack is too small; " +
                        reshardfs::limit_hint(reshardfs::Resource::kStack));
    return reshardfs::kExitIo;
  }
  // A program may be started without even a name.
  std::vector<std::string> words(argv, argv + argc);
  if (words.empty()) words.emplace_back("reshardfs");
  reshardfs::StartedProgram program(words.front(), {words.begin() + 1, words.end()});
  return reshardfs::leave(reshardfs::run_command_line(program));
}
