// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/rank_format.h"
#include "base/text/text.h"
#include "check/diff.h"
#include "check/words_diff.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/json_answer.h"
#include "cli/progress_display.h"
#include "cli/words/shared_words.h"
#include "cli/words/source_request.h"
#include "conversion/auto_map.h"
#include "conversion/unmatched_selectors.h"
#include "fuse/event_log.h"
#include "report/text/json_output.h"
#include "report/text/terminal.h"
#include "storage/local/linkless_tree.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

struct DiffArguments {
  /// A, then B.
  std::array<std::string, 2> paths;
  LogSettings log;
};

constexpr std::array<DiffStatus, 7> kStatuses{
    DiffStatus::kEqual, DiffStatus::kDifferent, DiffStatus::kOnlyInA, DiffStatus::kOnlyInB,
    DiffStatus::kShape, DiffStatus::kType,      DiffStatus::kPerRank};

std::size_t count_of(const std::vector<ParameterDiff>& results, DiffStatus status) {
  std::size_t count = 0;
  for (const ParameterDiff& result : results) count += result.status == status ? 1U : 0U;
  return count;
}

const char* colour_of(DiffStatus status) {
  switch (status) {
    case DiffStatus::kEqual:
      return "";
    case DiffStatus::kOnlyInA:
      return "\033[31m";
    case DiffStatus::kOnlyInB:
      return "\033[32m";
    default:
      return "\033[33m";
  }
}

std::string tensor_words(const std::optional<DType>& dtype, const Shape& shape) {
  return dtype ? std::string(mindspore_name(*dtype)) + " " + to_string(shape) : std::string();
}

/// "Float32 [4, 8]", or what both sides are.
std::string both_words(const ParameterDiff& result) {
  const std::string a = tensor_words(result.a_type, result.a_shape);
  const std::string b = tensor_words(result.b_type, result.b_shape);
  if (a.empty() || b.empty()) return a + b;
  return a == b ? a : a + " against " + b;
}

std::string number_words(const std::optional<double>& number) {
  return number ? fmt::format("{:.6g}", *number) : "none";
}

std::string difference_words(const ParameterDiff& result) {
  const ElementTally& tally = result.tally;
  if (tally.unequal == 0) return "";
  std::string text =
      fmt::format(": {} of {} {}", tally.different, counted(tally.elements, "element"),
                  tally.different == 1 ? "differs" : "differ");
  if (tally.unequal > tally.different) {
    text += fmt::format(" ({} more within the tolerance)", tally.unequal - tally.different);
  }
  if (tally.max_absolute) {
    text += fmt::format(", largest difference {} (relative {})", number_words(tally.max_absolute),
                        number_words(tally.max_relative));
  }
  if (tally.nans > 0) text += fmt::format(", {} with NaN", tally.nans);
  if (tally.first) {
    text += fmt::format(", first at ({}): {} against {}",
                        fmt::join(index_tuple(*tally.first, result.a_shape), ", "), tally.first_a,
                        tally.first_b);
  }
  return text;
}

void print_line(const ParameterDiff& result, bool colour) {
  const char* begin = colour ? colour_of(result.status) : "";
  const char* end = *begin != '\0' ? "\033[0m" : "";
  const std::string rank = result.rank ? fmt::format(" (rank {})", *result.rank) : "";
  std::cout << fmt::format("{}{}{}: {}{}: {}{}\n", begin, name_of(result.status), end,
                           printable(result.name), rank, both_words(result),
                           difference_words(result));
}

bool is_equal(const std::vector<ParameterDiff>& results) {
  return count_of(results, DiffStatus::kEqual) == results.size();
}

std::string summary(const DiffArguments& arguments, const std::vector<ParameterDiff>& results) {
  std::string text = fmt::format("{} and {} {}:", printable(shown_location(arguments.paths[0])),
                                 printable(shown_location(arguments.paths[1])),
                                 is_equal(results) ? "are equal" : "differ");
  bool first = true;
  for (const DiffStatus status : kStatuses) {
    const std::size_t count = count_of(results, status);
    if (count == 0 && status != DiffStatus::kEqual) continue;
    text += fmt::format("{} {} {}", first ? "" : ",", count, name_of(status));
    first = false;
  }
  std::size_t types = 0;
  for (const ParameterDiff& result : results) {
    types += result.types_differ() && result.status == DiffStatus::kEqual ? 1U : 0U;
  }
  if (types > 0) text += fmt::format(" ({} of these in another element type)", types);
  return text;
}

std::string words_text(const WordsDiff& words) {
  std::vector<std::string> parts;
  const auto add = [&](const char* what, const std::vector<std::string>& keys) {
    if (!keys.empty()) parts.push_back(what + name_list(keys));
  };
  add("only in A ", words.only_in_a);
  add("only in B ", words.only_in_b);
  add("of other values ", words.different);
  return fmt::format("metadata beside the tensors: {}\n", fmt::join(parts, "; "));
}

void print_text(const DiffArguments& arguments, const std::vector<ParameterDiff>& results,
                const WordsDiff& words) {
  constexpr std::size_t kShown = 30;
  const bool colour = use_colour();
  std::size_t unequal = 0;
  for (const ParameterDiff& result : results) {
    if (result.status != DiffStatus::kEqual) ++unequal;
    const bool is_shown = result.status != DiffStatus::kEqual && unequal <= kShown;
    if (is_shown || arguments.log.verbose) print_line(result, colour);
  }
  if (unequal > kShown && !arguments.log.verbose) {
    std::cout << fmt::format("... and {} more, which -v shows and --json lists\n",
                             unequal - kShown);
  }
  if (is_equal(results) && arguments.log.quiet) return;
  if (!words.empty()) std::cout << words_text(words);
  std::cout << summary(arguments, results) << "\n";
}

/// JSON has no infinity.
void write_number(JsonWriter& json, const char* name, const std::optional<double>& value) {
  if (!value || std::isfinite(*value)) return json.member_or_null(name, value);
  json.member(name, std::isnan(*value) ? "nan" : "inf");
}

void write_side(JsonWriter& json, const char* name, const std::optional<DType>& dtype,
                const Shape& shape) {
  if (!dtype) return json.null_member(name);
  json.open_object(name);
  json.member("dtype", mindspore_name(*dtype));
  json.numbers("shape", shape);
  json.close_object();
}

void write_members(JsonWriter& json, const ParameterDiff& result) {
  json.member("name", result.name);
  json.member("status", name_of(result.status));
  if (result.rank) json.member("rank", *result.rank);
  write_side(json, "a", result.a_type, result.a_shape);
  write_side(json, "b", result.b_type, result.b_shape);
  const ElementTally& tally = result.tally;
  json.member("elements", tally.elements);
  json.member("different", tally.different);
  if (tally.unequal == 0) return;
  json.member("unequal", tally.unequal);
  json.member("nan", tally.nans);
  write_number(json, "max_absolute", tally.max_absolute);
  write_number(json, "max_relative", tally.max_relative);
  if (!tally.first) return;
  json.open_object("first");
  json.numbers("index", index_tuple(*tally.first, result.a_shape));
  json.member("a", tally.first_a);
  json.member("b", tally.first_b);
  json.close_object();
}

std::string json_of_results(const DiffArguments& arguments,
                            const std::vector<ParameterDiff>& results, const WordsDiff& words) {
  return json_text([&](JsonWriter& json) {
    json.member("a", shown_location(arguments.paths[0]));
    json.member("b", shown_location(arguments.paths[1]));
    json.member("equal", is_equal(results));
    json.open_object("counts");
    for (const DiffStatus status : kStatuses) {
      json.member(name_of(status), count_of(results, status));
    }
    json.close_object();
    json.open_object("metadata");
    json.texts("only in A", words.only_in_a);
    json.texts("only in B", words.only_in_b);
    json.texts("different", words.different);
    json.close_object();
    json.objects("parameters", results,
                 [&](const ParameterDiff& result) { write_members(json, result); });
  });
}

void require_tolerance(double value, const char* option) {
  if (value >= 0) return;  // false for NaN
  throw Error(ErrorKind::kUsage, fmt::format("{} must be a number of at least 0", option));
}

/// What reads a set knows options by the names that they have for mount.
void name_options(Error& error, const std::string& letter) {
  const std::string text = error.what();
  for (const std::string name : {"strategy", "join", "replicas", "map-direction", "map-var",
                                 "model-config", "training-config"}) {
    const bool of_source = name == "strategy" || name == "join";
    const std::string known = (of_source ? "--src-" : "--") + name;
    if (text.find(known) == std::string::npos) continue;
    error.explain(fmt::format(" (here {} is --{}-{})", known, letter, name));
  }
}

/// @param letter "a" or "b".
DiffSide open_side(const Given& given, const std::string& letter, const DiffOptions& options) {
  const std::string named = given.argument(letter == "a" ? "A" : "B");
  try {
    const SourceRequest request = source_request(given, absolute_source(named), letter + "-");
    const auto takes = [&](const std::string& name) {
      return options.names.takes(letter == "a" ? options.name_map.target(name) : name);
    };
    DiffSide side = DiffSide::open_checked(request, {takes, options.names.weights_only});
    for (const std::string& warning : side.table().checkpoint().warnings()) {
      log_warning(LogEvent::kConversionWarning, "{}: {}", letter == "a" ? "A" : "B", warning);
    }
    for (const std::string& note : side.table().checkpoint().notes()) {
      log_info(LogEvent::kConversionNote, "{}: {}", letter == "a" ? "A" : "B", note);
    }
    for (const std::string& note : side.notes()) {
      log_info(LogEvent::kConversionNote, "{}: {}", letter == "a" ? "A" : "B", note);
    }
    for (const std::string& warning : side.warnings()) {
      log_warning(LogEvent::kConversionWarning, "{}: {}", letter == "a" ? "A" : "B", warning);
    }
    return side;
  } catch (Error& error) {
    name_options(error, letter);
    throw;
  }
}

DiffOptions diff_options(const Given& given) {
  DiffOptions options;
  options.tolerance.absolute = given.real("atol");
  options.tolerance.relative = given.real("rtol");
  require_tolerance(options.tolerance.absolute, "--atol");
  require_tolerance(options.tolerance.relative, "--rtol");
  options.tolerance.nan_equals_nan = !given.flag("nan-differs");
  options.strict_types = given.flag("strict-types");
  if (const auto map = existing_path(given, "name-map", "a JSON file")) {
    options.name_map = NameMap::load(*map);
    options.name_map_file = *map;
  }
  options.names.include = given.texts("include");
  options.names.exclude = given.texts("exclude");
  options.names.weights_only = given.flag("weights-only");
  options.allow_unmatched = given.flag("allow-unmatched");
  options.jobs = given.number_as<std::size_t>("jobs");
  return options;
}

/// What the set of a side states beside its tensors.
StatedWords words_of(const Given& given, const char* argument, const DiffSide& side) {
  const std::filesystem::path path = absolute_source(given.argument(argument));
  const std::filesystem::path root = given.flag("no-symlinks") ? path : std::filesystem::path();
  return read_stated_words(side.table().checkpoint(), linkless_tree_of(root, path));
}

/// Two checkpoints of one model that have the names of two frameworks, of which a few are equal.
void tell_of_other_names(const DiffSide& a, const DiffSide& b,
                         const std::vector<ParameterDiff>& results) {
  const auto count = [&](DiffStatus status) {
    return static_cast<std::size_t>(
        std::count_if(results.begin(), results.end(),
                      [&](const ParameterDiff& one) { return one.status == status; }));
  };
  const std::size_t only_a = count(DiffStatus::kOnlyInA);
  const std::size_t only_b = count(DiffStatus::kOnlyInB);
  const std::size_t both = results.size() - only_a - only_b;
  if (only_a <= both || only_b <= both) return;
  std::string way = "--a-map, --b-map, --a-rename and --name-map give others";
  for (const auto& [letter, side] : {std::pair{'a', &a}, std::pair{'b', &b}}) {
    const SourceTable& table = side->table();
    std::string maps = hugging_face_maps(names_in(table), table.checkpoint().state_prefixes(),
                                         known_source({}, table.checkpoint()));
    if (maps.empty()) continue;
    for (std::size_t at = 0; (at = maps.find("--map", at)) != std::string::npos; at += 4) {
      maps.insert(at + 2, std::string(1, letter) + "-");
    }
    way = fmt::format("{} gives Hugging Face's, with --{}-model-config DIR", maps, letter);
    break;
  }
  const std::string found = both == 0 ? "no name is in both A and B"
                                      : "A and B have only " + counted(both, "name") + " in common";
  log_warning(LogEvent::kConversionWarning, "{}: {}", found, way);
}

struct Sides {
  DiffOptions options;
  DiffSide a;
  DiffSide b;
};

Sides open_sides(const Given& given) {
  apply_storage(given);
  const DiffOptions options = diff_options(given);
  Sides sides{options, open_side(given, "a", options), open_side(given, "b", options)};
  std::vector<std::string> warnings;
  unmatched_in(sides.a, sides.b, options).settle(options.allow_unmatched, warnings);
  for (const std::string& warning : warnings)
    log_warning(LogEvent::kConversionWarning, "{}", warning);
  return sides;
}

WordsDiff compare_words(const Given& given, const Sides& sides) {
  return diff_words(words_of(given, "A", sides.a), words_of(given, "B", sides.b));
}

}  // namespace

std::string diff_json(const Given& given, Progress& progress) {
  const Sides sides = open_sides(given);
  const std::vector<ParameterDiff> results = diff(sides.a, sides.b, sides.options, progress);
  return json_of_results({{given.argument("A"), given.argument("B")}, {}}, results,
                         compare_words(given, sides));
}

int run_diff(const Given& given) {
  const DiffArguments arguments{{given.argument("A"), given.argument("B")}, log_settings(given)};
  arguments.log.apply();
  const Sides sides = open_sides(given);
  Progress progress;
  std::vector<ParameterDiff> results;
  {
    ProgressDisplay display(progress, arguments.log.quiet, ShowProgress::kOnTerminal);
    display.sum_up_at_end();
    results = diff(sides.a, sides.b, sides.options, progress);
  }
  const WordsDiff words = compare_words(given, sides);
  if (given.flag("json")) {
    std::cout << json_of_results(arguments, results, words) << "\n";
  } else {
    print_text(arguments, results, words);
  }
  tell_of_other_names(sides.a, sides.b, results);
  return is_equal(results) ? kExitDone : kExitDifference;
}

}  // namespace reshardfs
