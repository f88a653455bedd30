// SPDX-License-Identifier: Apache-2.0
/// Commands for a program that has them in its own process. They print nothing; what they would
/// warn of goes to the log.
#pragma once

#include <atomic>
#include <string>

#include "base/engine.h"
#include "base/process/progress.h"
#include "cli/words/given.h"

namespace reshardfs {

/// Runs inspect, plan, verify, diff or export.
/// @param progress may be stopped.
/// @return what --json prints; of export its result as export_json() has it.
/// @throws Error as the command; Interrupted after progress.stop().
RESHARDFS_ENGINE std::string json_answer(Given given, Progress& progress);

/// Each of given values that have been checked.
std::string inspect_json(const Given& given, Progress& progress);
std::string plan_json(const Given& given, Progress& progress);
/// What could not be read is a problem of the report, and no error.
std::string verify_json(const Given& given, Progress& progress);
std::string diff_json(const Given& given, Progress& progress);
/// {"written_files", "written_bytes", "kept_files", "kept_bytes", "resumed_bytes", "shared_bytes",
/// "removed_files", "share", "incomplete", "warnings", "unstated"}
std::string export_json(const Given& given, Progress& progress);

}  // namespace reshardfs
