// SPDX-License-Identifier: Apache-2.0
/// What inspect looks at, before it is printed.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/checkpoint.h"
#include "reshardfs/error.h"

#include "base/process/progress.h"
#include "base/text/glob.h"
#include "check/diff.h"
#include "check/parameter_stats.h"
#include "checkpoint/completeness.h"
#include "cli/words/given.h"
#include "daemon/process/log.h"
#include "report/text/contents_text.h"
#include "report/text/set_description.h"
#include "report/text/terminal.h"

namespace reshardfs {

struct InspectArguments {
  std::string path;  ///< as the user names it
  SourceRequest source;
  NameFilter names;
  bool list = false;
  bool tree = false;
  std::optional<std::size_t> depth;
  bool stats = false;
  bool only_bad = false;
  bool fail_on_nan = false;
  std::string why;  ///< the parameter
  std::size_t jobs = 0;
  bool json = false;
  LogSettings log;

  /// Nothing is asked for: all there is to say.
  bool wants_description() const { return !tree && !depth && !list && !stats; }
};

/// What the index says of the parameters that were asked for, and the whole ones if a strategy or
/// the checkpoint itself says how they are cut.
struct Inspected {
  CheckpointOptions options;  ///< that it was opened with
  std::shared_ptr<const CheckpointSet> set;
  CheckpointContents contents;
  Completeness completeness;
  std::optional<DiffSide> laid_out;
  /// What was looked for, and is not there.
  std::vector<std::string> not_found;
  NameFilter names{};  ///< of the arguments, with what the set says of its states
};

InspectArguments inspect_arguments(const Given& given);

/// @throws Error as the command.
Inspected open_inspected(const InspectArguments& arguments);

/// Describes a part of a checkpoint that cannot be opened; to be called while `error` is handled.
/// @throws `error` again if the path is no part of a checkpoint.
SetDescription describe_unopened(const InspectArguments& arguments, const Error& error);

/// Logs what is wrong with the set, or was chosen.
void log_inspected(const InspectArguments& arguments, const Inspected& inspected);

/// Reads all that is counted.
std::vector<ParameterStats> find_stats(const InspectArguments& arguments,
                                       const Inspected& inspected, Progress& progress);
bool has_bad(const std::vector<ParameterStats>& stats);
void keep_bad(std::vector<ParameterStats>& stats);

/// What is not known from the index alone.
struct Shown {
  std::optional<FullShapes> shapes;
  std::optional<SetDescription> description;

  const FullShapes* known_shapes() const { return shapes ? &*shapes : nullptr; }
};

Shown shown_of(const InspectArguments& arguments, const Given& given, const Inspected& inspected);

/// @param stats nothing: they were not asked for.
std::string json_of_inspected(const InspectArguments& arguments, const Inspected& inspected,
                              const Shown& shown, std::optional<std::vector<ParameterStats>> stats);

}  // namespace reshardfs
