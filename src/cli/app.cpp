// SPDX-License-Identifier: Apache-2.0
#include "cli/app.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <spdlog/common.h>

#include "reshardfs/error.h"

#include "base/process/resource_limits.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/messages.h"
#include "cli/words/arguments.h"
#include "cli/words/command_words.h"
#include "cli/words/complete_command.h"
#include "cli/words/help_formatter.h"
#include "cli/words/mount_helper.h"
#include "cli/words/usage_answers.h"
#include "daemon/process/log.h"
#include "daemon/process/process_start.h"
#include "daemon/process/started_program.h"

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

void complain(const std::string& message) {
  std::cerr << journal_priority(spdlog::level::err) << "reshardfs: " << message << std::endl;
}

int report_errors(const std::function<int()>& work,
                  const std::function<void(const std::string&)>& tell) {
  try {
    return work();
  } catch (const Error& error) {
    tell_error(error);
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

void add_commands(CLI::App& app, StartedProgram& program, CommandAction& action) {
  add_mount_command(app, program, action);
  add_umount_command(app, action);
  add_reload_command(app, action);
  add_status_command(app, action);
  add_export_command(app, action);
  add_hash_command(app, action);
  add_cat_command(app, action);
  add_inspect_command(app, action);
  add_plan_command(app, action);
  add_report_command(app, action);
  add_verify_command(app, action);
  add_diff_command(app, action);
  add_strategy_command(app, action);
  add_map_command(app, action);
  add_doctor_command(app, action);
  add_demo_command(app, action);
  add_help_command(app, action);
}

void group_commands(CLI::App& app) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> groups{
      {"Show a checkpoint", {"mount", "umount", "reload", "status", "export", "hash", "cat"}},
      {"Look into it", {"inspect", "plan", "report"}},
      {"Check it", {"verify", "diff"}},
      {"Strategies and model maps", {"strategy", "map"}},
      {"Get started", {"demo", "doctor", "help"}}};
  for (const auto& [title, names] : groups) {
    for (const char* name : names) app.get_subcommand(name)->group(title);
  }
}

/// The words with nothing left to be looked up in a configuration file. After a crash those of the
/// mount that goes on: whatever is in the file by now, nobody has asked for it yet.
std::vector<std::string> plain(const CLI::App& app, const Takeover* before,
                               std::vector<std::string> words) {
  if (before != nullptr && before->after_crash() && !before->state().trees.back().words.empty()) {
    set_log_level_source([&app, words = std::move(words)] {
      const auto reread = expand_arguments(app, words).reread_log_level;
      return reread ? reread() : std::string();
    });
    return before->state().trees.back().words;
  }
  ExpandedArguments expanded = expand_arguments(app, std::move(words));
  if (expanded.reread_log_level) set_log_level_source(std::move(expanded.reread_log_level));
  return std::move(expanded.words);
}

/// @param tell for what is wrong with the words.
int run_words(StartedProgram& program, const std::function<void(const std::string&)>& tell) {
  if (!program.words().empty() && program.words().front() == kCompleteCommand) {
    return flush_output(run_complete({program.words().begin() + 1, program.words().end()}));
  }
  CLI::App app{
      "Mount a distributed checkpoint as the files of another parallel strategy, without "
      "converting it.",
      "reshardfs"};
  app.set_version_flag("--version", std::string("reshardfs ") + kVersion,
                       "Print the version and exit");
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print this help and exit");
  // Commands inherit it when they are added.
  app.formatter(help_formatter());
  app.footer(
      "'reshardfs demo' gives a first look; reshardfs-tutorial(7) shows how to serve a training "
      "job's output; reshardfs(1) is the reference.\nExit status: 0 success; 1 a check found a "
      "difference or damage; 2 bad usage or bad input; 3 an I/O error.");
  CommandAction action;
  add_commands(app, program, action);
  group_commands(app);
  try {
    // A successor has the words that were made of those of mount(8).
    if (!program.is_successor()) {
      if (auto words = mount_helper_arguments(program.name(), program.words())) {
        program.set_words(std::move(*words));
      }
    }
    std::vector<std::string> arguments = expand_help(program.words());
    check_command_words(app, arguments);
    program.meet_predecessor();
    arguments = plain(app, program.predecessor(), std::move(arguments));
    program.set_plain_words(arguments);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return flush_output(app.exit(error));  // --help, --version
    const std::string answer = usage_answer(app, error);
    tell_error(ErrorKind::kUsage, answer);
    tell(answer);
    return kExitBadInput;
  }
  return flush_output(action());
}

}  // namespace

int run_command_line(StartedProgram& program) {
  const auto tell = [&program](const std::string& message) {
    complain(message);
    program.tell_predecessor(message);
  };
  // There may not be memory even for what is known of the options.
  return report_errors([&] { return run_words(program, tell); }, tell);
}

}  // namespace reshardfs
