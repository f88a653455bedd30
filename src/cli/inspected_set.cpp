// SPDX-License-Identifier: Apache-2.0
#include "cli/inspected_set.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/content_size.h"
#include "base/text/name_groups.h"
#include "check/stats_text.h"
#include "checkpoint/source_links.h"
#include "checkpoint/whole/whole_catalogue.h"
#include "cli/describe/describe_set.h"
#include "cli/describe/next_commands.h"
#include "cli/describe/places.h"
#include "cli/json_answer.h"
#include "cli/words/shared_words.h"
#include "cli/words/source_request.h"
#include "conversion/contents.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "conversion/unmatched_selectors.h"
#include "fuse/event_log.h"
#include "plan/target/name_map.h"
#include "report/text/json_output.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

/// The ranks that hold any part of a whole parameter.
std::vector<Rank> holding_ranks(const CellGrid& grid) {
  std::set<Rank> ranks;
  for (std::size_t i = 0; i < grid.cell_count(); ++i) {
    if (const Holding cell = grid.cell(i)) ranks.insert(cell.file->rank);
  }
  for (std::size_t i = 0; i < grid.replica_count(); ++i) {
    if (const Holding copy = grid.replica_at(i).holding) ranks.insert(copy.file->rank);
  }
  return {ranks.begin(), ranks.end()};
}

/// The tensors that a map shows, in place of those of the files.
std::vector<CheckpointParameter> shown_parameters(const DiffSide& shown) {
  std::vector<CheckpointParameter> parameters;
  for (const SourceParameter& parameter : shown.table().parameters()) {
    const Shape& full = parameter.grid->full_shape();
    const std::int64_t bytes = content_size(full, parameter.dtype, "a parameter's size");
    parameters.push_back({parameter.name, parameter.dtype, full, static_cast<std::uint64_t>(bytes),
                          holding_ranks(*parameter.grid)});
  }
  return parameters;
}

/// Of --include that is an answer; other options are in error.
/// @param shown through a map; nothing: there is none.
void check_names(const InspectArguments& arguments, const CheckpointSet& set,
                 Inspected& inspected) {
  const NameFilter& filter = inspected.names;
  if (filter.include.empty() && filter.exclude.empty()) return;
  const bool mapped = inspected.laid_out && inspected.laid_out->table().mapped_from() != nullptr;
  std::vector<std::string> names;
  if (mapped) {
    names = names_in(inspected.laid_out->table());
  } else {
    for (const CheckpointParameter& held : inspected.contents.parameters)
      names.push_back(held.name);
    for (const CheckpointByteItem& held : inspected.contents.byte_items) names.push_back(held.name);
    for (const CheckpointRefused& held : inspected.contents.refused) names.push_back(held.name);
  }
  if (mapped && filter.weights_only) {
    for (std::string& name : names_in(set)) names.push_back(std::move(name));
  }
  UnmatchedOptions excluded;
  excluded.add_globs("--exclude", filter.exclude, names);
  std::vector<std::string> warnings;
  excluded.settle(arguments.source.allow_unmatched, warnings);
  UnmatchedOptions included;
  included.add_globs("--include", filter.include, names);
  if (arguments.source.allow_unmatched) included.settle(/*allowed=*/true, warnings);
  for (const std::string& warning : warnings)
    log_warning(LogEvent::kConversionWarning, "{}", warning);
  if (!arguments.source.allow_unmatched) inspected.not_found = included.lines();
}

/// In what the files hold.
void rename(const Renames& renames, CheckpointContents& contents) {
  const auto give_names = [&](auto& list) {
    std::erase_if(list, [&](auto& item) {
      const auto name = renames(item.name);
      if (name) item.name = *name;
      return !name;
    });
  };
  give_names(contents.parameters);
  give_names(contents.refused);
}

/// What the model's own numbers say of what was opened.
void state(const InspectArguments& arguments, const SourceTreePtr& tree, Inspected& inspected) {
  const SourceRequest& source = arguments.source;
  ModelQuestion question = model_question(source, *inspected.set, tree);
  if (inspected.laid_out) question.table = &inspected.laid_out->table().unmapped();
  if (source.maps.maps.empty()) {
    question.takes = [&](const std::string& name) { return inspected.names.takes(name); };
  }
  inspected.completeness = state_model(question);
  if (!source.strategy && source.sizes.empty()) return;
  inspected.completeness.grounds.emplace_back("the strategy");
  inspected.completeness.unstated.clear();
}

Inspected open_set(const InspectArguments& arguments, SourceOpening& opening) {
  const SourceRequest& source = arguments.source;
  const std::shared_ptr<const CheckpointSet> set = opening.open_set(/*examines_all=*/true);
  Inspected inspected{opening.options_of_set(), set, contents_of(*set), {}, std::nullopt, {}};
  for (const std::string& warning : opening.unmatched_warnings())
    log_warning(LogEvent::kConversionWarning, "{}", warning);
  const bool is_laid_out = source.strategy || !source.sizes.empty();
  inspected.names = arguments.names;
  inspected.names.state_prefixes = opening.state_prefixes();
  const auto takes = [names = inspected.names](const std::string& name) {
    return names.takes(name);
  };
  opening.require_distinct_names(takes);
  rename(opening.renames(), inspected.contents);
  const DiffSide::Wanted wanted{takes, arguments.names.weights_only};
  if (!source.maps.maps.empty()) {
    inspected.laid_out = DiffSide::open(source, wanted, opening);
    inspected.contents.parameters = shown_parameters(*inspected.laid_out);
  }
  check_names(arguments, *set, inspected);
  const bool had_any = !inspected.contents.parameters.empty();
  const auto is_left_out = [&](const auto& listed) { return !takes(listed.name); };
  std::erase_if(inspected.contents.parameters, is_left_out);
  std::erase_if(inspected.contents.byte_items, is_left_out);
  std::erase_if(inspected.contents.refused, is_left_out);
  if (had_any && inspected.contents.parameters.empty() && inspected.contents.byte_items.empty() &&
      inspected.not_found.empty() && !arguments.source.allow_unmatched) {
    inspected.not_found.emplace_back(
        "--include, --exclude and --weights-only leave no parameter to show");
  }
  if (inspected.laid_out) return inspected;
  const bool is_stated = is_laid_out || !source.join.empty();
  if (!is_stated && !inspected.contents.records_layouts) return inspected;
  try {
    inspected.laid_out = DiffSide::open(source, wanted, opening);
  } catch (const Error& error) {
    if (is_stated) throw;
    // What the files hold can be shown all the same.
    log_warning(LogEvent::kConversionWarning, "the whole parameters are not known: {}",
                error.what());
  }
  return inspected;
}

FullShapes full_shapes(const DiffSide& source) {
  FullShapes shapes;
  for (const SourceParameter& parameter : source.table().parameters()) {
    if (const CellGridPtr grid = source.laid_out(parameter)) {
      shapes.emplace(parameter.name, grid->full_shape());
    }
  }
  return shapes;
}

bool is_bad(const ParameterStats& parameter) {
  return parameter.is_bad();
}

SetDescription describe(const InspectArguments& arguments, const Given& given,
                        const Inspected& inspected) {
  DescribedSource source;
  source.named = arguments.path;
  source.options = inspected.options;
  source.request = arguments.source;
  source.set = inspected.set;
  source.laid_out = inspected.laid_out ? &*inspected.laid_out : nullptr;
  source.statement = inspected.completeness;
  source.carried = [&given](const std::string& command) { return carried_options(given, command); };
  return describe_set(source);
}

}  // namespace

InspectArguments inspect_arguments(const Given& given) {
  InspectArguments arguments;
  arguments.path = given.argument("PATH");
  arguments.source = source_request(given, located(arguments.path));
  arguments.names.include = given.texts("include");
  arguments.names.exclude = given.texts("exclude");
  arguments.names.weights_only = given.flag("weights-only");
  arguments.list = given.flag("list");
  arguments.tree = given.flag("tree");
  if (given.has("depth")) arguments.depth = given.number_as<std::size_t>("depth");
  arguments.stats = given.flag("stats");
  arguments.only_bad = given.flag("only-bad");
  arguments.fail_on_nan = given.flag("fail-on-nan");
  arguments.why = given.text("why");
  arguments.jobs = given.number_as<std::size_t>("jobs");
  arguments.json = given.flag("json");
  return arguments;
}

Inspected open_inspected(const InspectArguments& arguments) {
  SourceOpening opening(arguments.source);
  Inspected inspected = open_set(arguments, opening);
  state(arguments, opening.tree(), inspected);
  return inspected;
}

SetDescription describe_unopened(const InspectArguments& arguments, const Error& error) {
  const bool is_content = error.kind() == ErrorKind::kMissing ||
                          error.kind() == ErrorKind::kBadInput ||
                          error.kind() == ErrorKind::kUnsupported;
  if (!is_content || !arguments.source.pattern.empty()) throw;
  auto part = describe_part(arguments.path);
  if (!part) throw;
  return *std::move(part);
}

void log_inspected(const InspectArguments& arguments, const Inspected& inspected) {
  for (const std::string& warning : inspected.contents.warnings)
    log_warning(LogEvent::kConversionWarning, "{}", warning);
  for (const std::string& note : inspected.contents.notes)
    log_info(LogEvent::kConversionNote, "{}", note);
  std::vector<std::pair<std::string, std::string>> refused;
  for (const CheckpointRefused& tensor : inspected.contents.refused) {
    refused.emplace_back(tensor.name, tensor.reason);
  }
  for (const std::string& words : names_by_reason(refused)) {
    log_warning(LogEvent::kConversionWarning, "cannot be shown: {}", words);
  }
  const auto takes = [&](const std::string& name) {
    return !arguments.source.maps.maps.empty() || inspected.names.takes(name);
  };
  for (const Error& error : inspected.completeness.missing) {
    log_warning(LogEvent::kConversionWarning, "{}", error.what());
  }
  for (const std::string& line : warnings_of(inspected.completeness, takes)) {
    log_warning(LogEvent::kConversionWarning, "{}", line);
  }
  const bool states_layouts =
      arguments.source.strategy || !arguments.source.sizes.empty() || inspected.set->catalogue();
  if (!states_layouts) {
    for (const Error& error : inspected.completeness.missing_without_layouts) {
      log_warning(LogEvent::kConversionWarning, "{}", error.what());
    }
    for (const std::string& line : warnings_without_layouts(*inspected.set)) {
      log_warning(LogEvent::kConversionWarning, "{}", line);
    }
  }
  if (!inspected.laid_out) return;
  for (const std::string& warning : inspected.laid_out->warnings())
    log_warning(LogEvent::kConversionWarning, "{}", warning);
}

std::vector<ParameterStats> find_stats(const InspectArguments& arguments,
                                       const Inspected& inspected, Progress& progress) {
  const StatsOptions options{inspected.names, arguments.jobs};
  if (inspected.laid_out) return whole_stats(*inspected.laid_out, options, progress);
  return file_stats(*inspected.set, options, progress);
}

bool has_bad(const std::vector<ParameterStats>& stats) {
  return std::any_of(stats.begin(), stats.end(), is_bad);
}

void keep_bad(std::vector<ParameterStats>& stats) {
  std::erase_if(stats, std::not_fn(is_bad));
}

Shown shown_of(const InspectArguments& arguments, const Given& given, const Inspected& inspected) {
  Shown shown;
  if (inspected.laid_out) shown.shapes = full_shapes(*inspected.laid_out);
  if (arguments.wants_description()) shown.description = describe(arguments, given, inspected);
  return shown;
}

std::string json_of_inspected(const InspectArguments& arguments, const Inspected& inspected,
                              const Shown& shown,
                              std::optional<std::vector<ParameterStats>> stats) {
  return json_text([&](JsonWriter& json) {
    write_contents(json, inspected.contents, shown.known_shapes());
    if (shown.description) write_description(json, *shown.description);
    write_completeness(json, inspected.completeness);
    if (!stats) return;
    if (arguments.only_bad) keep_bad(*stats);
    write_stats(json, *stats);
  });
}

std::string inspect_json(const Given& given, Progress& progress) {
  apply_storage(given);
  const InspectArguments arguments = inspect_arguments(given);
  std::optional<Inspected> inspected;
  try {
    inspected = open_inspected(arguments);
  } catch (const Error& error) {
    const auto part = describe_unopened(arguments, error);
    return json_text([&](JsonWriter& json) { write_description(json, part); });
  }
  log_inspected(arguments, *inspected);
  for (const std::string& line : inspected->not_found) {
    log_warning(LogEvent::kConversionWarning, "{}", line);
  }
  std::optional<std::vector<ParameterStats>> stats;
  if (arguments.stats) stats = find_stats(arguments, *inspected, progress);
  return json_of_inspected(arguments, *inspected, shown_of(arguments, given, *inspected),
                           std::move(stats));
}

}  // namespace reshardfs
