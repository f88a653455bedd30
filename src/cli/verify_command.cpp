// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "reshardfs/error.h"

#include "base/rank_format.h"
#include "base/rank_json.h"
#include "base/text/text.h"
#include "check/verify.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/words/check_arguments.h"
#include "cli/words/log_arguments.h"
#include "cli/words/map_arguments.h"
#include "cli/words/storage_arguments.h"
#include "conversion/option_words.h"
#include "report/text/completeness_json.h"
#include "report/text/json_output.h"
#include "report/text/text.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

/// Lines of problems; all of them are in the JSON.
constexpr std::size_t kShownProblems = 100;

struct VerifyArguments {
  std::string source;
  std::string strategy;
  MapArguments map;
  std::string manifest;
  VerifyOptions options;
  bool json = false;
  LogArguments log;
  StorageArguments storage;
};

/// `FILE: offset N: parameter 'P': rank R: what`
std::string line_of(const Problem& problem) {
  std::string line;
  if (!problem.file.empty()) line += printable(problem.file) + ": ";
  if (problem.offset) line += fmt::format("offset {}: ", *problem.offset);
  if (!problem.parameter.empty()) line += "parameter '" + printable(problem.parameter) + "': ";
  if (problem.rank) line += fmt::format("rank {}: ", *problem.rank);
  return line + problem.message;
}

std::string summary(const VerifyArguments& arguments, const VerifyReport& report) {
  const VerifyOptions& options = arguments.options;
  std::string text = fmt::format("{}: {}", printable(shown_location(arguments.source)),
                                 report.good()        ? "good"
                                 : report.only_open() ? "not known to be complete"
                                                      : "damaged");
  if (!report.good()) text += ": " + counted(report.problems.size(), "problem");
  if (report.damaged_parameters > 0) {
    text += " in " + counted(report.damaged_parameters, "parameter");
  }
  if (report.differing_bytes > 0) {
    text += ", " + counted(report.differing_bytes, "byte") +
            (report.differing_bytes == 1 ? " differs" : " differ");
  }
  text += fmt::format("; {}, {}, {} checked", counted(report.files, "file"),
                      counted(report.parameters, "parameter"), human_bytes(report.bytes));
  if (!report.step.empty()) text += ", step " + report.step;
  text += fmt::format("; CRC good in {}, none in {}", counted(report.crc_good, "file"),
                      counted(report.crc_none, "file"));
  if (!report.per_rank.empty()) {
    text += "; " + counted(report.per_rank.size(), "parameter") +
            " without a layout differ between ranks";
  }
  if (!report.own_values.empty()) {
    text += "; replicas differ in " + counted(report.own_values.size(), "parameter") +
            ", as --replicas " + word_of(kReplicasWords, options.replicas) + " lets them";
  }
  const std::string completeness = completeness_words(report.completeness);
  return completeness.empty() ? text : text + "; " + completeness;
}

void print_text(const VerifyArguments& arguments, const VerifyReport& report) {
  std::size_t shown = 0;
  for (const Problem& problem : report.problems) {
    if (shown++ == kShownProblems) break;
    std::cout << line_of(problem) << "\n";
  }
  if (report.problems.size() > kShownProblems) {
    std::cout << fmt::format("... and {} more, which --json lists\n",
                             report.problems.size() - kShownProblems);
  }
  if (report.good() && arguments.log.quiet) return;
  std::cout << summary(arguments, report) << "\n";
}

nlohmann::ordered_json as_json(const Problem& problem) {
  const auto text = [](const std::string& value) {
    return value.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  nlohmann::ordered_json json{{"kind", name_of(problem.kind)}};
  json["rank"] = problem.rank ? nlohmann::ordered_json(*problem.rank) : nullptr;
  json["file"] = text(problem.file);
  json["parameter"] = text(problem.parameter);
  json["offset"] = problem.offset ? nlohmann::ordered_json(*problem.offset) : nullptr;
  json["differing_bytes"] = problem.differing_bytes;
  json["message"] = problem.message;
  return json;
}

nlohmann::ordered_json as_json(const VerifyArguments& arguments, const VerifyReport& report) {
  nlohmann::ordered_json json{{"source", shown_location(arguments.source)},
                              {"step", report.step},
                              {"good", report.good()},
                              {"files", report.files},
                              {"parameters", report.parameters},
                              {"bytes", report.bytes},
                              {"crc_good", report.crc_good},
                              {"crc_none", report.crc_none},
                              {"manifest_good", report.manifest_good},
                              {"damaged_parameters", report.damaged_parameters},
                              {"differing_bytes", report.differing_bytes}};
  json["problems"] = nlohmann::ordered_json::array();
  for (const Problem& problem : report.problems) json["problems"].push_back(as_json(problem));
  json["differ_between_ranks"] = report.per_rank;
  json["differing_replicas"] = report.own_values;
  json["warnings"] = report.warnings;
  json["completeness"] = completeness_json(report.completeness);
  return json;
}

int run_verify(const VerifyArguments& arguments) {
  arguments.log.apply();
  arguments.storage.apply();
  VerifyOptions options = arguments.options;
  options.source = absolute_source(arguments.source);
  options.strategy =
      existing_path(arguments.strategy, "--src-strategy", "a strategy file or a directory of them");
  options.maps = arguments.map.options_of_maps();
  options.names.state_prefixes = options.state_prefixes;
  if (!arguments.manifest.empty()) {
    options.manifest =
        existing_path(arguments.manifest, "--against", "what sha256sum writes").value_or("none");
  }
  CheckProgress progress;
  VerifyReport report;
  {
    const ProgressLine line(progress, !arguments.log.quiet);
    report = verify(options, progress);
  }
  for (const std::string& warning : report.warnings) spdlog::warn("{}", warning);
  for (const std::string& name : report.per_rank) {
    spdlog::info("'{}' has no layout and differs between ranks", printable(name));
  }
  for (const std::string& name : report.own_values) {
    spdlog::info("replicas of '{}' differ", printable(name));
  }
  if (arguments.json) {
    write_json(as_json(arguments, report));
  } else {
    print_text(arguments, report);
  }
  if (report.unread()) return kExitIo;
  return report.good() ? kExitDone : kExitDifference;
}

}  // namespace

void add_verify_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<VerifyArguments>();
  VerifyOptions& options = arguments->options;
  CLI::App* command =
      app.add_subcommand("verify", "Read a whole checkpoint and check files, replicas and CRCs");
  const auto one = [&](const std::string& name, std::string& value, const std::string& text) {
    return command->add_option(name, value, text)->take_last();
  };
  const auto many = [&](const std::string& name, std::vector<std::string>& values,
                        const std::string& text) {
    return command->add_option(name, values, text)->take_all()->expected(1);
  };
  command->add_option("SOURCE", arguments->source, "A checkpoint, as for mount")->required();
  one("--src-strategy", arguments->strategy,
      "Strategy the checkpoint was saved with; none if every rank holds whole parameters")
      ->type_name("FILE|DIR|none");
  one("--src-pattern", options.pattern, "Where the files are, e.g. 'rank_{rank}/*-{step}.ckpt'")
      ->type_name("PATTERN");
  one("--src-prefix", options.prefix, kPrefixHelp)->type_name("PREFIX");
  one("--step", options.step, "The step to read")->type_name("STEP|latest")->capture_default_str();
  many("--src-join", options.join,
       "Without a strategy: treat matching parameters as slices, one per rank (repeatable)")
      ->type_name("GLOB");
  many("--state-prefix", options.state_prefixes,
       "Prefix of optimizer states: PREFIX plus a weight's name is cut like that weight "
       "(repeatable)")
      ->type_name("PREFIX");
  arguments->map.add_to(*command);
  add_replicas_option(*command, "--replicas", options.replicas,
                      "Require equal replicas, or accept different ones, as for mount");
  many("--include", options.names.include,
       "Keep only parameters that match this pattern (repeatable)")
      ->type_name("GLOB");
  many("--exclude", options.names.exclude,
       "Leave out parameters that match this pattern (repeatable)")
      ->type_name("GLOB");
  add_weights_option(*command, options.names.weights_only);
  add_unmatched_option(*command, options.allow_unmatched);
  command->add_flag("--no-symlinks", options.no_symlinks, "Refuse symbolic links below the source");
  one("--against", arguments->manifest, "Also compare the files with this output of sha256sum")
      ->type_name("FILE");
  command
      ->add_option("--dec-key-file", options.dec_key_file,
                   "File with the key of encrypted .ckpt files, in raw bytes or hexadecimal digits")
      ->type_name("FILE")
      ->take_last();
  add_decryption_mode(*command, "--dec-mode", options.dec_mode);
  add_jobs_option(*command, options.jobs);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_option("--config", "Read options from a TOML file")->type_name("FILE.toml");
  arguments->storage.add_to(*command);
  arguments->log.add_to(*command);
  command->footer(
      "Example: check a copy before you delete the original\n  reshardfs verify ckpt "
      "--src-strategy train.ckpt --against SHA256SUMS");
  command->callback(
      [&action, arguments] { action = [arguments] { return run_verify(*arguments); }; });
}

}  // namespace reshardfs
