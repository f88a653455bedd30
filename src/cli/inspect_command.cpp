// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/checkpoint.h"
#include "reshardfs/error.h"

#include "base/content_size.h"
#include "base/text/glob.h"
#include "base/text/name_groups.h"
#include "base/text/name_order.h"
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
#include "cli/inspected_set.h"
#include "cli/progress_display.h"
#include "cli/words/shared_words.h"
#include "cli/words/source_request.h"
#include "conversion/contents.h"
#include "conversion/map_copies.h"
#include "conversion/model_maps.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "conversion/unmatched_selectors.h"
#include "fuse/event_log.h"
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
  tensors.reserve(contents.parameters.size());
  for (const CheckpointParameter& parameter : contents.parameters) {
    tensors.push_back({parameter.name, parameter.dtype, parameter.shape, parameter.bytes,
                       parameter.ranks.size(),
                       in_several_ranks ? held_by(parameter) : std::string()});
  }
  return tensors;
}

std::vector<ParameterStats> find_stats(const InspectArguments& arguments,
                                       const Inspected& inspected) {
  Progress progress;
  ProgressDisplay display(progress, arguments.log.quiet, ShowProgress::kOnTerminal);
  display.sum_up_at_end();
  return find_stats(arguments, inspected, progress);
}

std::uint64_t total_bytes(const CheckpointContents& contents) {
  std::uint64_t total = 0;
  for (const CheckpointFile& file : contents.files) total += file.bytes;
  return total;
}

std::size_t count_names(const std::vector<CheckpointParameter>& parameters) {
  std::vector<std::string_view> names;
  names.reserve(parameters.size());
  for (const CheckpointParameter& parameter : parameters) names.emplace_back(parameter.name);
  if (are_distinct(names)) return names.size();
  std::sort(names.begin(), names.end());
  return static_cast<std::size_t>(std::unique(names.begin(), names.end()) - names.begin());
}

void print_summary(const std::string& path, const CheckpointContents& contents,
                   std::size_t columns) {
  // Parts of different sizes are listed one by one.
  const std::size_t names = count_names(contents.parameters);
  const std::string what =
      fmt::format(": {} in {}, {}", human_bytes(total_bytes(contents)),
                  counted(contents.files.size(), "file"), counted(names, "parameter"));
  const std::size_t room = columns - std::min(columns, text_width(what));
  std::cout << shortened(printable(path), std::max<std::size_t>(room, 4)) << what << "\n";
  if (!contents.step.empty()) {
    std::cout << wrapped(fmt::format("step {} (steps found: {})", contents.step,
                                     fmt::join(contents.steps, ", ")),
                         columns, 4)
              << "\n";
  }
}

/// What proves that the set is complete, or what is unknown. Empty for one file, which is all that
/// was asked for.
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
  const bool bad = has_bad(stats);
  if (arguments.only_bad) keep_bad(stats);
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
  const bool is_glob = arguments.why.find_first_of("*?[") != std::string::npos;
  const auto is_asked_for = [&](const std::string& name) {
    return name == arguments.why || name == weight_of(arguments.why, opening.state_prefixes()) ||
           is_glob;
  };
  const auto table = opening.lay_out_unread(opening.needed(is_asked_for)).table;
  MappedSourceOptions options = opening.mapped_options();
  options.compares_ranks = false;
  compare_mapped_ranks(*table, maps, arguments.source.replicas);
  const DiffSide side(maps.apply(table, {}, options).table, arguments.source);
  const auto print_why = [&](const SourceParameter& parameter) {
    CellGridPtr grid = side.laid_out(parameter);
    if (!grid) grid = single_cell_grid(parameter.holders.front());
    std::cout << fmt::format("{}  {} {}\n", printable(parameter.name),
                             mindspore_name(parameter.dtype), to_string(grid->full_shape()));
    std::set<std::string> of_files{parameter.name};
    if (!maps.empty()) {
      for (const auto& explanation : maps.explain(table, {}, options, parameter.name)) {
        std::cout << "\n" << explanation_text(explanation);
        for (const std::string& name : explanation.sources) of_files.insert(name);
      }
      std::erase_if(of_files,
                    [&](const std::string& name) { return table->find(name) == nullptr; });
    }
    std::cout << "\n";
    for (const std::string& name : of_files) std::cout << layout_text(*table, name);
    std::cout << "\n" << ranges_text(grid);
  };
  if (const SourceParameter* parameter = side.table().find(arguments.why)) {
    print_why(*parameter);
    return kExitDone;
  }
  std::vector<std::string> names;
  bool is_first = true;
  for (const SourceParameter& known : side.table().parameters()) {
    names.push_back(known.name);
    if (!is_glob || !glob_match(arguments.why, known.name)) continue;
    if (!is_first) std::cout << "\n";
    is_first = false;
    print_why(known);
  }
  if (!is_first) return kExitDone;
  throw Error(ErrorKind::kMissing,
              is_glob ? "no parameter matches this pattern" : "no parameter with this name")
      .for_parameter(arguments.why)
      .hint(did_you_mean(arguments.why, names));
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

}  // namespace

int run_inspect(const Given& given) {
  const LogSettings log = log_settings(given);
  log.apply();
  apply_storage(given);
  InspectArguments arguments = inspect_arguments(given);
  arguments.log = log;
  if (!arguments.why.empty()) return run_why(arguments);
  std::optional<Inspected> opened;
  try {
    opened = open_inspected(arguments);
  } catch (const Error& error) {
    list_series(arguments);
    const auto part = describe_unopened(arguments, error);
    if (arguments.json) {
      write_json([&](JsonWriter& json) { write_description(json, part); });
    } else {
      std::cout << part_text(arguments.path, part, output_columns()) << next_text(part.next);
    }
    return kExitDone;
  }
  const Inspected& inspected = *opened;
  log_inspected(arguments, inspected);
  const Shown shown = shown_of(arguments, given, inspected);
  bool bad = false;
  if (arguments.json) {
    std::optional<std::vector<ParameterStats>> stats;
    if (arguments.stats) stats = find_stats(arguments, inspected);
    bad = stats && has_bad(*stats);
    std::cout << json_of_inspected(arguments, inspected, shown, std::move(stats)) << "\n";
  } else {
    bad = print_text(arguments, inspected, shown.description, shown.known_shapes());
  }
  for (const std::string& line : inspected.not_found) complain(line);
  const bool failed = (bad && arguments.fail_on_nan) || !inspected.not_found.empty();
  return failed ? kExitDifference : kExitDone;
}

}  // namespace reshardfs
