// SPDX-License-Identifier: Apache-2.0
#include "cli/app.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <system_error>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/process/resource_limits.h"
#include "base/version.h"
#include "cli/advice/advise.h"
#include "cli/command.h"
#include "cli/messages.h"
#include "cli/options/table.h"
#include "cli/systemd_generator.h"
#include "cli/words/check_given.h"
#include "cli/words/complete_command.h"
#include "cli/words/config_words.h"
#include "cli/words/help_text.h"
#include "cli/words/mount_arguments.h"
#include "cli/words/mount_helper.h"
#include "cli/words/read_words.h"
#include "cli/words/shared_words.h"
#include "daemon/process/log.h"
#include "daemon/process/process_start.h"
#include "daemon/started_program.h"

namespace reshardfs {
namespace {

int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kBadInput:
    case ErrorKind::kMissing:
    case ErrorKind::kUnsupported:
      return kExitBadInput;
    case ErrorKind::kIo:
    case ErrorKind::kChanged:
    case ErrorKind::kInternal:
      return kExitIo;
  }
  return kExitIo;
}

/// With all that is known, unless there is no memory for that either.
void tell_of_memory(const std::function<void(const std::string&)>& tell) {
  std::string text = "out of memory";
  try {
    text += "; " + limit_hint(Resource::kMemory);
  } catch (const std::bad_alloc&) {
  }
  tell(text);
}

/// Whether what was printed has arrived, so that an output on a full disk is not taken for whole.
/// A program that was started without standard output has nobody to print for.
int flush_output(int exit_code) {
  errno = 0;
  const bool good = !std::cout.flush().fail() && std::fflush(stdout) == 0 && !std::ferror(stdout);
  if (good || is_unused(STDOUT_FILENO)) return exit_code;
  // The first write that failed may have been long ago.
  complain(errno == 0 ? "standard output: cannot write all of it"
                      : io_error("write", "standard output", errno).what());
  return kExitIo;
}

}  // namespace

int report_errors(const std::function<int()>& work,
                  const std::function<void(const std::string&)>& tell) {
  try {
    return work();
  } catch (const Error& error) {
    tell_error(error);
    const LogScope scope(
        LogEvent::kCommandFailed,
        {.source_file = error.file(), .parameter = error.parameter(), .error = error.os_error()});
    tell(error.what());
    return exit_code_of(error.kind());
  } catch (const std::bad_alloc&) {
    tell_of_memory(tell);
  } catch (const std::filesystem::filesystem_error& error) {
    tell(io_error("use", error.path1(), error.code().value()).what());
  } catch (const std::system_error& error) {
    tell(error.code() == std::errc::resource_unavailable_try_again
             ? "cannot start a thread: " + why_no_thread(error)
             : fmt::format("internal error: {}", error.what()));
  } catch (const std::exception& error) {
    tell(fmt::format("internal error: {}", error.what()));
  }
  return kExitIo;
}

namespace {

int run_command(const Given& given, StartedProgram& program) {
  struct Runner {
    Commands command;
    int (*run)(const Given&);
  };
  static constexpr std::array<Runner, 23> kRunners{
      {{commands::kRun, run_run},
       {commands::kUmount, run_umount},
       {commands::kReload, run_reload},
       {commands::kStatus, run_status},
       {commands::kWarm, run_warm},
       {commands::kExport, run_export},
       {commands::kHash, run_hash},
       {commands::kCat, run_cat},
       {commands::kInspect, run_inspect},
       {commands::kPlan, run_plan},
       {commands::kReport, run_report},
       {commands::kVerify, run_verify},
       {commands::kDiff, run_diff},
       {commands::kStrategyShow, run_strategy_show},
       {commands::kStrategyMerge, run_strategy_convert},
       {commands::kStrategyConvert, run_strategy_convert},
       {commands::kStrategyCheck, run_strategy_check},
       {commands::kStrategyGuess, run_strategy_guess},
       {commands::kMapList, run_map_list},
       {commands::kMapCheck, run_map_check},
       {commands::kMapShow, run_map_show},
       {commands::kDoctor, run_doctor},
       {commands::kDemo, run_demo}}};
  const Commands command = given.command().bit;
  if (command == commands::kMount) return run_mount(given, program);
  const auto* const found =
      std::find_if(kRunners.begin(), kRunners.end(),
                   [command](const Runner& runner) { return runner.command == command; });
  return found->run(given);
}

/// What the command line and the configuration file say. After a crash, reuses the earlier command
/// line; later edits of the file do not count.
Given with_config(Given given, const Takeover* before) {
  if (before != nullptr && before->after_crash() && !before->state().trees.back().words.empty()) {
    set_log_level_source([given] {
      Given again = given;
      const LogLevelSource reread = add_config_words(again);
      return reread ? reread() : std::string();
    });
    return read_mount_words(before->state().trees.back().words, given.has("config"));
  }
  if (LogLevelSource reread = add_config_words(given)) set_log_level_source(std::move(reread));
  check_given(given);
  return given;
}

/// Also of what is wrong with the rest of the words.
void use_log_format(const Given& given) {
  if (find_option(given.command(), "log-format") != nullptr) {
    set_complaint_format(log_format(given));
  }
}

int run_words(StartedProgram& program) {
  if (!program.words().empty() && program.words().front() == kCompleteCommand) {
    return run_complete({program.words().begin() + 1, program.words().end()});
  }
  if (run_systemd_generator(program.name(), program.words())) return kExitDone;
  // A successor has the words that were made of those of mount(8).
  if (!program.is_successor()) {
    if (auto words = mount_helper_arguments(program.name(), program.words())) {
      program.set_words(std::move(*words));
    }
  }
  Given given = read_words(program.words());
  if (given.command().bit == commands::kProgram && given.flag("version")) {
    std::cout << "reshardfs " << kVersion << "\n";
    return kExitDone;
  }
  if (given.flag("help")) {
    std::cout << (given.wants_brief_help ? brief_help_text(given.command(), help_columns())
                                         : help_text(given.command(), help_columns()));
    return kExitDone;
  }
  use_log_format(given);
  program.meet_predecessor();
  const bool goes_on = program.predecessor() != nullptr;
  try {
    // The typed words stay, for an answer about them.
    given = with_config(given, program.predecessor());
    use_log_format(given);
    return run_command(given, program);
  } catch (const Error& error) {
    if (goes_on) throw;
    throw advised(error, given);
  }
}

}  // namespace

int run_command_line(StartedProgram& program) {
  const auto tell = [&program](const std::string& message) {
    complain(message);
    program.tell_predecessor(message);
  };
  // There may not be memory even for what is known of the options.
  return report_errors([&] { return flush_output(run_words(program)); }, tell);
}

}  // namespace reshardfs
