// SPDX-License-Identifier: Apache-2.0
/// A command is one file with a function that declares its options and what it runs. To add one:
/// the file, a declaration here, and a line in app.cpp.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace reshardfs {

class StartedProgram;

/// What the chosen command runs after all options are read; returns the exit code.
using CommandAction = std::function<int()>;

void add_mount_command(CLI::App& app, StartedProgram& program, CommandAction& action);
void add_umount_command(CLI::App& app, CommandAction& action);
void add_reload_command(CLI::App& app, CommandAction& action);
void add_status_command(CLI::App& app, CommandAction& action);
void add_export_command(CLI::App& app, CommandAction& action);
void add_hash_command(CLI::App& app, CommandAction& action);
void add_cat_command(CLI::App& app, CommandAction& action);
void add_inspect_command(CLI::App& app, CommandAction& action);
void add_plan_command(CLI::App& app, CommandAction& action);
void add_report_command(CLI::App& app, CommandAction& action);
void add_verify_command(CLI::App& app, CommandAction& action);
void add_diff_command(CLI::App& app, CommandAction& action);
void add_strategy_command(CLI::App& app, CommandAction& action);
void add_map_command(CLI::App& app, CommandAction& action);
void add_doctor_command(CLI::App& app, CommandAction& action);
void add_demo_command(CLI::App& app, CommandAction& action);
void add_help_command(CLI::App& app, CommandAction& action);

}  // namespace reshardfs
