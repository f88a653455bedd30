// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/checkpoint.h"
#include "reshardfs/error.h"

#include "base/content_size.h"
#include "base/process/event_log.h"
#include "base/text/name_groups.h"
#include "base/text/near_name.h"
#include "check/parameter_stats.h"
#include "check/stats_text.h"
#include "checkpoint/completeness.h"
#include "checkpoint/series/series.h"
#include "checkpoint/source_links.h"
#include "checkpoint/whole/whole_catalogue.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/describe/describe_set.h"
#include "cli/describe/next_commands.h"
#include "cli/describe/places.h"
#include "cli/progress_display.h"
#include "cli/words/shared_words.h"
#include "cli/words/source_request.h"
#include "conversion/contents.h"
#include "conversion/map_copies.h"
#include "conversion/model_maps.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "conversion/unmatched_selectors.h"
#include "plan/mapped/mapped_source.h"
#include "plan/target/name_map.h"
#include "report/text/contents_text.h"
#include "report/text/json_output.h"
#include "report/text/model_tree_text.h"
#include "report/text/series_list.h"
#include "report/text/set_description.h"
#include "report/text/terminal.h"
#include "report/text/text.h"
#include "report/text/why_text.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

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
  rename(opening.renames(), inspected.contents);
  const bool is_laid_out = source.strategy || !source.sizes.empty();
  inspected.names = arguments.names;
  inspected.names.state_prefixes = opening.state_prefixes();
  const auto takes = [names = inspected.names](const std::string& name) {
    return names.takes(name);
  };
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

Inspected open_inspected(const InspectArguments& arguments) {
  SourceOpening opening(arguments.source);
  Inspected inspected = open_set(arguments, opening);
  state(arguments, opening.tree(), inspected);
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

/// Whole parameters; of what has no layout, one rank's.
std::vector<ModelTensor> whole_tensors(const DiffSide& source, const NameFilter& names) {
  std::vector<ModelTensor> tensors;
  for (const SourceParameter& parameter : source.table().parameters()) {
    if (!names.takes(parameter.name)) continue;
    CellGridPtr grid = source.laid_out(parameter);
    if (!grid) grid = single_cell_grid(parameter.holders.front());
    const std::int64_t bytes =
        content_size(grid->full_shape(), parameter.dtype, "a parameter's size");
    tensors.push_back(
        {parameter.name, parameter.dtype, grid->full_shape(), static_cast<std::uint64_t>(bytes)});
  }
  return tensors;
}

/// All that the files hold.
std::vector<ModelTensor> held_tensors(const CheckpointContents& contents, bool in_several_ranks) {
  std::vector<ModelTensor> tensors;
  for (const CheckpointParameter& parameter : contents.parameters) {
    tensors.push_back({parameter.name, parameter.dtype, parameter.shape, parameter.bytes,
                       parameter.ranks.size(),
                       in_several_ranks ? held_by(parameter) : std::string()});
  }
  return tensors;
}

std::vector<ParameterStats> find_stats(const InspectArguments& arguments,
                                       const Inspected& inspected) {
  const StatsOptions options{inspected.names, arguments.jobs};
  Progress progress;
  const ProgressDisplay display(progress, arguments.log.quiet, ShowProgress::kOnTerminal);
  if (inspected.laid_out) return whole_stats(*inspected.laid_out, options, progress);
  return file_stats(*inspected.set, options, progress);
}

bool is_bad(const ParameterStats& parameter) {
  return parameter.is_bad();
}

std::uint64_t total_bytes(const CheckpointContents& contents) {
  std::uint64_t total = 0;
  for (const CheckpointFile& file : contents.files) total += file.bytes;
  return total;
}

void print_summary(const std::string& path, const CheckpointContents& contents,
                   std::size_t columns) {
  const std::string what = fmt::format(": {} in {}, {}", human_bytes(total_bytes(contents)),
                                       counted(contents.files.size(), "file"),
                                       counted(contents.parameters.size(), "parameter"));
  const std::size_t room = columns - std::min(columns, text_width(what));
  std::cout << shortened(printable(path), std::max<std::size_t>(room, 4)) << what << "\n";
  if (!contents.step.empty()) {
    std::cout << wrapped(fmt::format("step {} (steps found: {})", contents.step,
                                     fmt::join(contents.steps, ", ")),
                         columns, 4)
              << "\n";
  }
}

/// What states that the set is complete, or what nothing states. One file is all that was asked
/// for: of that there is nothing to say.
std::string statement_of(const InspectArguments& arguments, const Inspected& inspected) {
  const auto& files = inspected.contents.files;
  if (files.size() == 1 && files.front().path == arguments.source.path) return {};
  const std::string words = completeness_words(inspected.completeness);
  return words.empty() ? words : wrapped(words, output_columns(), 4);
}

/// The rows that it takes of a terminal, which breaks lines that are too long.
std::size_t count_rows(const std::string& text) {
  const std::size_t columns = output_columns();
  std::size_t rows = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t width = std::max<std::size_t>(text_width(line), 1);
    rows += (width - 1) / columns + 1;
  }
  return rows;
}

bool has_several_ranks(const CheckpointContents& contents) {
  const auto& files = contents.files;
  return std::any_of(files.begin(), files.end(),
                     [&](const CheckpointFile& file) { return file.rank != files.front().rank; });
}

/// @param around lines that are printed above it and below it.
void print_tree(const InspectArguments& arguments, const Inspected& inspected, std::size_t around) {
  const std::size_t lines = output_lines();
  const bool has_ranks = has_several_ranks(inspected.contents);
  const TreeStyle style{output_columns(), lines - std::min(lines, around),
                        arguments.depth.value_or(0), use_colour(), locale_is_utf8()};
  if (!arguments.source.maps.maps.empty()) {
    std::cout << "whole parameters, as the map shows them\n";
  } else if (inspected.laid_out) {
    std::cout << (inspected.contents.records_layouts
                      ? "whole parameters, as the checkpoint lays them out\n"
                      : "whole parameters, as the strategy lays them out\n");
  } else if (has_ranks) {
    std::cout << wrapped("contents of all files; --src-strategy shows the whole parameters",
                         style.columns, 4)
              << "\n";
  }
  const std::vector<ModelTensor> tensors = inspected.laid_out
                                               ? whole_tensors(*inspected.laid_out, inspected.names)
                                               : held_tensors(inspected.contents, has_ranks);
  if (!tensors.empty()) std::cout << "\n" << tree_text(model_tree(tensors), style);
}

/// @returns whether a parameter has NaN or infinite elements.
bool print_stats(const InspectArguments& arguments, const Inspected& inspected) {
  std::vector<ParameterStats> stats = find_stats(arguments, inspected);
  const std::string summary = bad_elements_text(stats);
  const bool bad = std::any_of(stats.begin(), stats.end(), is_bad);
  if (arguments.only_bad) std::erase_if(stats, std::not_fn(is_bad));
  if (!stats.empty()) {
    std::cout << "\n" << stats_text(stats, output_columns(), use_colour());
  }
  std::cout << "\n" << wrapped(summary, output_columns(), 4) << "\n";
  return bad;
}

void print_list(const InspectArguments& arguments, const Inspected& inspected,
                const FullShapes* shapes) {
  ContentsStyle style{shapes};
  if (!arguments.source.maps.maps.empty()) style = {nullptr, "SHAPE"};
  std::cout << "\n" << listed_parameters(inspected.contents, style);
}

/// @returns as print_stats().
bool print_text(const InspectArguments& arguments, const Inspected& inspected,
                const std::optional<SetDescription>& description, const FullShapes* shapes) {
  // Before it takes its time.
  print_summary(shown_location(arguments.path), inspected.contents, output_columns());
  const std::string statement = statement_of(arguments, inspected);
  std::string above = statement.empty() ? statement : statement + "\n";
  if (description) above += description_text(*description, output_columns());
  const std::string below = description ? next_text(description->next) : std::string();
  std::cout << above << std::flush;
  if (arguments.stats) return print_stats(arguments, inspected);
  if (arguments.list) {
    print_list(arguments, inspected, shapes);
  } else {
    print_tree(arguments, inspected, count_rows(above) + count_rows(below));
  }
  const std::string items = byte_items_text(inspected.contents);
  if (!items.empty()) std::cout << "\n" << items;
  std::cout << below;
  return false;
}

int run_why(const InspectArguments& arguments) {
  SourceOpening opening(arguments.source);
  const ModelMaps& maps = opening.maps();
  opening.open_set(/*examines_all=*/true);
  // A state is laid out as its weight. Through a map any parameter may be asked for.
  const auto is_asked_for = [&](const std::string& name) {
    return name == arguments.why || name == weight_of(arguments.why, opening.state_prefixes());
  };
  const auto table = opening.lay_out_unread(opening.needed(is_asked_for)).table;
  MappedSourceOptions options = opening.mapped_options();
  options.compares_ranks = false;
  compare_mapped_ranks(*table, maps, arguments.source.replicas);
  const DiffSide side(maps.apply(table, {}, options).table, arguments.source);
  const SourceParameter* parameter = side.table().find(arguments.why);
  if (parameter == nullptr) {
    std::vector<std::string> names;
    for (const SourceParameter& known : side.table().parameters()) names.push_back(known.name);
    throw Error(ErrorKind::kMissing, "no parameter with this name")
        .for_parameter(arguments.why)
        .hint(did_you_mean(arguments.why, names));
  }
  CellGridPtr grid = side.laid_out(*parameter);
  if (!grid) grid = single_cell_grid(parameter->holders.front());
  std::cout << fmt::format("{}  {} {}\n", printable(parameter->name),
                           mindspore_name(parameter->dtype), to_string(grid->full_shape()));
  std::set<std::string> of_files{parameter->name};
  if (!maps.empty()) {
    for (const auto& explanation : maps.explain(table, {}, options, arguments.why)) {
      std::cout << "\n" << explanation_text(explanation);
      for (const std::string& name : explanation.sources) of_files.insert(name);
    }
    std::erase_if(of_files, [&](const std::string& name) { return table->find(name) == nullptr; });
  }
  std::cout << "\n";
  for (const std::string& name : of_files) std::cout << layout_text(*table, name);
  std::cout << "\n" << ranges_text(grid);
  return kExitDone;
}

/// Where the user has to choose among several: all there are to choose from. Why nothing else is
/// shown is what opening the set throws.
void list_series(const InspectArguments& arguments) {
  if (!arguments.source.prefix.empty()) return;
  std::vector<SeriesInfo> all;
  try {
    all = find_series(arguments.source.path, set_options(arguments.source));
  } catch (const Error&) {
    return;
  }
  const auto is_ordinary = [](const SeriesInfo& series) { return !series.is_breakpoint; };
  const auto ordinary = std::count_if(all.begin(), all.end(), is_ordinary);
  if (all.size() < 2 || ordinary == 1) return;
  print_series(all, arguments.json);
}

/// Of what cannot be opened, while the error is handled: a part of a checkpoint is described all
/// the same.
/// @throws the error of what is none.
int describe_unopened(const InspectArguments& arguments, const Error& error) {
  const bool is_content = error.kind() == ErrorKind::kMissing ||
                          error.kind() == ErrorKind::kBadInput ||
                          error.kind() == ErrorKind::kUnsupported;
  if (!is_content || !arguments.source.pattern.empty()) throw;
  const auto part = describe_part(arguments.path);
  if (!part) throw;
  if (arguments.json) {
    write_json([&](JsonWriter& json) { write_description(json, *part); });
  } else {
    std::cout << part_text(arguments.path, *part, output_columns()) << next_text(part->next);
  }
  return kExitDone;
}

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

int run_inspect(const Given& given) {
  const LogSettings log = log_settings(given);
  log.apply();
  apply_storage(given);
  InspectArguments arguments = inspect_arguments(given);
  arguments.log = log;
  if (!arguments.why.empty()) return run_why(arguments);
  list_series(arguments);
  std::optional<Inspected> opened;
  try {
    opened = open_inspected(arguments);
  } catch (const Error& error) {
    return describe_unopened(arguments, error);
  }
  const Inspected& inspected = *opened;
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
  std::optional<FullShapes> shapes;
  if (inspected.laid_out) {
    for (const std::string& warning : inspected.laid_out->warnings())
      log_warning(LogEvent::kConversionWarning, "{}", warning);
    shapes = full_shapes(*inspected.laid_out);
  }
  const FullShapes* known = shapes ? &*shapes : nullptr;
  std::optional<SetDescription> description;
  if (arguments.wants_description()) description = describe(arguments, given, inspected);
  bool bad = false;
  if (arguments.json) {
    write_json([&](JsonWriter& json) {
      write_contents(json, inspected.contents, known);
      if (description) write_description(json, *description);
      write_completeness(json, inspected.completeness);
      if (!arguments.stats) return;
      std::vector<ParameterStats> stats = find_stats(arguments, inspected);
      bad = std::any_of(stats.begin(), stats.end(), is_bad);
      if (arguments.only_bad) std::erase_if(stats, std::not_fn(is_bad));
      write_stats(json, stats);
    });
  } else {
    bad = print_text(arguments, inspected, description, known);
  }
  for (const std::string& line : inspected.not_found) complain(line);
  const bool failed = (bad && arguments.fail_on_nan) || !inspected.not_found.empty();
  return failed ? kExitDifference : kExitDone;
}

}  // namespace reshardfs
