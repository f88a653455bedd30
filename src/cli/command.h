// SPDX-License-Identifier: Apache-2.0
/// A command is one file with a function that runs it. To add one: the file, a declaration here, a
/// line in app.cpp, and rows in options/, which say what it takes.
#pragma once

#include "cli/words/given.h"

namespace reshardfs {

class StartedProgram;

/// Each returns the exit code.
int run_mount(const Given& given, StartedProgram& program);
int run_run(const Given& given);
int run_umount(const Given& given);
int run_reload(const Given& given);
int run_status(const Given& given);
int run_warm(const Given& given);
int run_export(const Given& given);
int run_hash(const Given& given);
int run_cat(const Given& given);
int run_inspect(const Given& given);
int run_plan(const Given& given);
int run_report(const Given& given);
int run_verify(const Given& given);
int run_diff(const Given& given);
int run_strategy_show(const Given& given);
/// `strategy merge`, too.
int run_strategy_convert(const Given& given);
int run_strategy_check(const Given& given);
int run_strategy_guess(const Given& given);
int run_map_list(const Given& given);
int run_map_check(const Given& given);
int run_map_show(const Given& given);
int run_doctor(const Given& given);
int run_demo(const Given& given);

}  // namespace reshardfs
