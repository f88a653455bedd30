// SPDX-License-Identifier: Apache-2.0
#include "daemon/mount_tree.h"

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/process/free_memory.h"
#include "base/process/resource_limits.h"
#include "base/rank_list.h"
#include "base/sha256.h"
#include "base/unmatched_options.h"
#include "conversion/identity.h"
#include "conversion/strategy_input.h"
#include "daemon/complete_steps.h"
#include "daemon/open_conversion.h"
#include "fuse/event_log.h"
#include "view/view.h"

namespace reshardfs {
namespace {

void add_files(const std::vector<OutputFile>& files, TreeBuilder& builder) {
  for (const OutputFile& output : files) {
    builder.add_file(output.path, output.file);
    if (output.hidden) builder.hide(output.path.substr(0, output.path.find('/')));
  }
}

void add_files(const Conversion& conversion, TreeBuilder& builder) {
  add_files(ConversionAccess::listed(conversion), builder);
  for (const DeferredView& view : ConversionAccess::deferred(conversion)) {
    builder.add_deferred(view.directory, view.files);
  }
}

/// @return what tells its files from others'.
std::string add_step(ConversionOptions options, const std::string& step, TreeBuilder& builder) {
  options.source.step = step;
  // What selects something of one step may select nothing of another: see check_selectors().
  options.source.allow_unmatched = true;
  std::string contents;
  {
    const Conversion conversion = open_conversion(options);
    builder.set_mtime(conversion.mtime_ns());
    add_files(conversion, builder);
    const std::string identity =
        mount_identity(options, conversion.source_files(), ConversionAccess::inputs(conversion),
                       ConversionAccess::companions(conversion));
    contents = step_contents(conversion) + " " + sha256_of(std::as_bytes(std::span(identity)));
  }
  return_free_memory();
  log_info(LogEvent::kStepOpened, "opened step {}", step);
  return contents;
}

void report(const std::string& step, const Error& error) {
  if (step.empty()) {
    log_error(LogEvent::kStepsUnknown, "cannot look for new steps: {}", error.what());
  } else {
    log_error(LogEvent::kStepRefused, "step {} cannot be shown: {}", printable(step), error.what());
  }
}

/// What steps/ would only tell when a step is looked into, and then of each.
/// @return the ranks that the source strategy asks for.
std::optional<RankRange> check_input(const ConversionOptions& options) {
  const StrategyInput source(options.source.strategy);
  const StrategyInput target(options.dst_strategy, options.dst_sizes);
  const std::vector<StepInfo> steps = steps_of(options);
  if (steps.empty()) {
    throw Error(ErrorKind::kMissing, "the file names carry no steps")
        .in_file(options.source.path.string())
        .hint("mount without '--step all', or mark the step with {step} in --src-pattern");
  }
  return source.ranks();
}

/// Options that select parameters are to select some of the newest step, if that can be opened.
void check_selectors(ConversionOptions options, const StepTree::Listing& listing) {
  if (options.source.allow_unmatched || listing.steps.empty()) return;
  options.source.step = listing.steps.back().name;
  options.source.allow_unmatched = true;
  options.check_replicas = false;
  std::vector<std::string> lines;
  try {
    lines = Conversion::open(options).unmatched();
  } catch (const Error&) {
    return;  // its directory says so
  }
  UnmatchedOptions unmatched;
  for (std::string& line : lines) unmatched.add(std::move(line));
  unmatched.settle(/*allowed=*/false, lines);
}

/// An empty steps/ would be a riddle.
void warn_of_no_step(const std::vector<StepInfo>& steps, const std::string& obstacle) {
  if (!obstacle.empty()) {
    log_warning(LogEvent::kStepIncomplete, "no step can be shown yet: {}", obstacle);
  } else if (!steps.empty()) {
    log_warning(LogEvent::kStepIncomplete,
                "no step can be shown yet: the newest, {}, is on {} alone, or still being written",
                steps.back().name, rank_words(steps.back().ranks));
  }
}

std::vector<std::string> shown_names(const std::string& saved) {
  std::vector<std::string> names;
  for (const SavedSteps::Step& step : decode_steps(saved).steps) {
    if (step.shown) names.push_back(step.name);
  }
  return names;
}

}  // namespace

Tree conversion_tree(const Conversion& conversion, std::uint64_t version) {
  TreeBuilder builder(version);
  add_files(conversion, builder);
  return std::move(builder).build();
}

std::unique_ptr<StepTree> all_steps_tree(const ConversionOptions& options,
                                         const std::optional<StepTree::GoingOn>& before) {
  // More than any set has, so that it is raised as far as it can be: many steps may be open.
  constexpr std::size_t kManyFiles = std::size_t{1} << 20;
  const auto steps = std::make_shared<CompleteSteps>(options, check_input(options));
  raise_open_file_limit(kManyFiles);
  StepTree::Callbacks callbacks;
  if (before) steps->trust(shown_names(before->saved));
  const StepTree::Listing listing = steps->list({});
  if (listing.steps.empty()) warn_of_no_step(steps_of(options), steps->obstacle());
  if (!before) check_selectors(options, listing);
  callbacks.list = [steps](const std::set<std::string>& open) { return steps->list(open); };
  callbacks.open = [steps, options](const std::string& step, TreeBuilder& builder) {
    try {
      return add_step(options, step, builder);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kIo) steps->doubt(step);
      throw;
    }
  };
  // Monitoring finds them at one place, whichever steps there are.
  std::vector<OutputFile> common = process_files();
  common.push_back(all_steps_status(options));
  common.push_back(all_steps_ready());
  callbacks.common = [files = std::move(common)](TreeBuilder& builder) {
    add_files(files, builder);
  };
  callbacks.report = report;
  if (before) return std::make_unique<StepTree>(std::move(callbacks), *before);
  return std::make_unique<StepTree>(std::move(callbacks));
}

}  // namespace reshardfs
