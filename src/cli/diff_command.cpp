// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "reshardfs/error.h"

#include "base/rank_format.h"
#include "base/rank_json.h"
#include "base/text/text.h"
#include "check/diff.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/words/check_arguments.h"
#include "cli/words/log_arguments.h"
#include "cli/words/map_arguments.h"
#include "cli/words/storage_arguments.h"
#include "report/text/json_output.h"
#include "report/text/terminal.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

struct DiffArguments {
  /// A, then B.
  std::array<std::string, 2> paths;
  std::array<std::string, 2> strategies;
  std::array<DiffSource, 2> sources;
  std::array<MapArguments, 2> maps;
  DiffOptions options;
  std::string name_map;
  bool nan_differs = false;
  bool no_symlinks = false;
  bool json = false;
  LogArguments log;
  StorageArguments storage;
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

void print_text(const DiffArguments& arguments, const std::vector<ParameterDiff>& results) {
  const bool colour = use_colour();
  for (const ParameterDiff& result : results) {
    if (result.status != DiffStatus::kEqual || arguments.log.verbose) print_line(result, colour);
  }
  if (is_equal(results) && arguments.log.quiet) return;
  std::cout << summary(arguments, results) << "\n";
}

/// JSON has no infinity.
nlohmann::ordered_json number(const std::optional<double>& value) {
  if (!value) return nullptr;
  if (!std::isfinite(*value)) return std::isnan(*value) ? "nan" : "inf";
  return *value;
}

nlohmann::ordered_json as_json(const ParameterDiff& result) {
  nlohmann::ordered_json json{{"name", result.name}, {"status", name_of(result.status)}};
  if (result.rank) json["rank"] = *result.rank;
  const auto side = [](const std::optional<DType>& dtype, const Shape& shape) {
    return dtype ? nlohmann::ordered_json{{"dtype", mindspore_name(*dtype)}, {"shape", shape}}
                 : nlohmann::ordered_json();
  };
  json["a"] = side(result.a_type, result.a_shape);
  json["b"] = side(result.b_type, result.b_shape);
  const ElementTally& tally = result.tally;
  json["elements"] = tally.elements;
  json["different"] = tally.different;
  if (tally.unequal == 0) return json;
  json["unequal"] = tally.unequal;
  json["nan"] = tally.nans;
  json["max_absolute"] = number(tally.max_absolute);
  json["max_relative"] = number(tally.max_relative);
  if (tally.first) {
    json["first"] = {{"index", index_tuple(*tally.first, result.a_shape)},
                     {"a", tally.first_a},
                     {"b", tally.first_b}};
  }
  return json;
}

void print_json(const DiffArguments& arguments, const std::vector<ParameterDiff>& results) {
  nlohmann::ordered_json json{{"a", shown_location(arguments.paths[0])},
                              {"b", shown_location(arguments.paths[1])},
                              {"equal", is_equal(results)}};
  for (const DiffStatus status : kStatuses) {
    json["counts"][name_of(status)] = count_of(results, status);
  }
  json["parameters"] = nlohmann::ordered_json::array();
  for (const ParameterDiff& result : results) json["parameters"].push_back(as_json(result));
  write_json(json);
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

DiffSide open_side(const DiffArguments& arguments, std::size_t number, const DiffOptions& options) {
  const std::string letter = number == 0 ? "a" : "b";
  DiffSource source = arguments.sources.at(number);
  source.path = absolute_source(arguments.paths.at(number));
  source.strategy = existing_path(arguments.strategies.at(number), "--" + letter + "-strategy",
                                  "a strategy file or a directory of them");
  try {
    source.no_symlinks = arguments.no_symlinks;
    source.weights_only = options.names.weights_only;
    source.allow_unmatched = options.allow_unmatched;
    source.maps = arguments.maps.at(number).options_of_maps();
    DiffSide side = DiffSide::open_checked(source, [&](const std::string& name) {
      return options.names.takes(number == 0 ? options.name_map.target(name) : name);
    });
    for (const std::string& warning : side.table().checkpoint().warnings()) {
      spdlog::warn("{}: {}", letter == "a" ? "A" : "B", warning);
    }
    for (const std::string& note : side.table().checkpoint().notes()) {
      spdlog::info("{}: {}", letter == "a" ? "A" : "B", note);
    }
    for (const std::string& note : side.notes()) {
      spdlog::info("{}: {}", letter == "a" ? "A" : "B", note);
    }
    for (const std::string& warning : side.warnings()) {
      spdlog::warn("{}: {}", letter == "a" ? "A" : "B", warning);
    }
    return side;
  } catch (Error& error) {
    name_options(error, letter);
    throw;
  }
}

int run_diff(const DiffArguments& arguments) {
  arguments.log.apply();
  arguments.storage.apply();
  DiffOptions options = arguments.options;
  require_tolerance(options.tolerance.absolute, "--atol");
  require_tolerance(options.tolerance.relative, "--rtol");
  options.tolerance.nan_equals_nan = !arguments.nan_differs;
  if (const auto map = existing_path(arguments.name_map, "--name-map", "a JSON file")) {
    options.name_map = NameMap::load(*map);
    options.name_map_file = *map;
  }
  const DiffSide a = open_side(arguments, 0, options);
  const DiffSide b = open_side(arguments, 1, options);
  std::vector<std::string> warnings;
  unmatched_in(a, b, options).settle(options.allow_unmatched, warnings);
  for (const std::string& warning : warnings) spdlog::warn("{}", warning);
  CheckProgress progress;
  std::vector<ParameterDiff> results;
  {
    const ProgressLine line(progress, !arguments.log.quiet);
    results = diff(a, b, options, progress);
  }
  arguments.json ? print_json(arguments, results) : print_text(arguments, results);
  return is_equal(results) ? kExitDone : kExitDifference;
}

void add_side_options(CLI::App& command, DiffArguments& arguments, std::size_t number) {
  const std::string side = number == 0 ? "A" : "B";
  const std::string prefix = number == 0 ? "--a-" : "--b-";
  DiffSource& source = arguments.sources.at(number);
  const auto one = [&](const std::string& name, std::string& value, const std::string& text) {
    return command.add_option(prefix + name, value, text)->take_last();
  };
  one("strategy", arguments.strategies.at(number),
      "Strategy " + side + " was saved with; none if every rank holds whole parameters")
      ->type_name("FILE|DIR|none");
  one("step", source.step, "The step of " + side + " to read")
      ->type_name("STEP|latest")
      ->capture_default_str();
  one("pattern", source.pattern, "Where the files of " + side + " are")->type_name("PATTERN");
  one("prefix", source.prefix,
      "Which of several runs or models in the directory of " + side + " is read")
      ->type_name("PREFIX");
  source.prefix_option = prefix + "prefix";
  command
      .add_option(prefix + "join", source.join,
                  "Without a strategy: join the slices of matching parameters of " + side +
                      " along dimension 0, in rank order (repeatable)")
      ->type_name("GLOB")
      ->take_all()
      ->expected(1);
  add_replicas_option(
      command, prefix + "replicas", source.replicas,
      "Replicas of " + side +
          " that differ: fail, take the lowest rank's copy, or compare rank by rank");
  command
      .add_option(prefix + "dec-key-file", source.dec_key_file,
                  "File with the key of encrypted .ckpt files of " + side)
      ->type_name("FILE")
      ->take_last();
  add_decryption_mode(command, prefix + "dec-mode", source.dec_mode);
  arguments.maps.at(number).add_to(command, number == 0 ? "a" : "b");
}

void add_comparison_options(CLI::App& command, DiffArguments& arguments) {
  DiffOptions& options = arguments.options;
  const auto number = [&](const std::string& name, double& value, const std::string& text) {
    command.add_option(name, value, text)->type_name("NUMBER")->capture_default_str()->take_last();
  };
  number("--atol", options.tolerance.absolute, "Absolute tolerance");
  number("--rtol", options.tolerance.relative,
         "Relative tolerance, as a factor of the value in B; added to --atol");
  command.add_flag("--nan-differs", arguments.nan_differs, "Treat two NaNs as different");
  command.add_flag("--strict-types", options.strict_types,
                   "Report different element types even where all values are equal");
  command.add_option("--name-map", arguments.name_map, "A JSON object of names in A to names in B")
      ->type_name("FILE.json")
      ->take_last();
  const auto globs = [&](const std::string& name, NameGlobs& value, const std::string& text) {
    command.add_option(name, value, text)->type_name("GLOB")->take_all()->expected(1);
  };
  globs("--include", options.names.include,
        "Keep only parameters that match this pattern (repeatable)");
  globs("--exclude", options.names.exclude,
        "Leave out parameters that match this pattern (repeatable)");
  add_weights_option(command, options.names.weights_only);
  add_unmatched_option(command, options.allow_unmatched);
  add_jobs_option(command, options.jobs);
  command.add_flag("--no-symlinks", arguments.no_symlinks, "Refuse symbolic links below A and B");
  command.add_flag("--json", arguments.json, "Print JSON");
}

}  // namespace

void add_diff_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App* command =
      app.add_subcommand("diff", "Compare two checkpoints by value, in any layouts and formats");
  command->add_option("A", arguments->paths[0], "A checkpoint, as for mount")->required();
  command->add_option("B", arguments->paths[1], "The checkpoint to compare it with")->required();
  add_side_options(*command, *arguments, 0);
  add_side_options(*command, *arguments, 1);
  add_comparison_options(*command, *arguments);
  command->add_option("--config", "Read options from a TOML file")->type_name("FILE.toml");
  arguments->storage.add_to(*command);
  arguments->log.add_to(*command);
  command->footer(
      "Example: does a merged bfloat16 file match the training checkpoint?\n  reshardfs diff ckpt "
      "merged.safetensors --a-strategy train.ckpt --rtol 0.01\nExample: does a hub model match the "
      "training checkpoint?\n  reshardfs diff ckpt hub-dir --a-strategy train.ckpt --a-map "
      "mindformers-qwen3 \\\n    --a-model-config hub-dir");
  command->callback(
      [&action, arguments] { action = [arguments] { return run_diff(*arguments); }; });
}

}  // namespace reshardfs
