// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/rank_format.h"
#include "base/text/name_groups.h"
#include "base/text/text.h"
#include "check/verify.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/json_answer.h"
#include "cli/progress_display.h"
#include "cli/words/shared_words.h"
#include "cli/words/source_request.h"
#include "conversion/option_words.h"
#include "fuse/event_log.h"
#include "report/text/json_output.h"
#include "report/text/text.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

/// Lines of problems; all of them are in the JSON.
constexpr std::size_t kShownProblems = 100;

struct VerifyArguments {
  std::string source;  ///< as it was given
  VerifyOptions options;
  LogSettings log;
};

/// "parameter 'P': "
std::string parameter_words(const std::vector<std::string>& names) {
  if (names.front().empty()) return {};
  constexpr std::size_t kMostNames = 20;
  const std::vector<std::string> groups = names.size() == 1 ? names : group_names(names);
  return (names.size() == 1 ? "parameter " : "parameters ") + name_list(groups, kMostNames) + ": ";
}

/// `FILE: offset N: parameter 'P': rank R: what`
std::string line_of(const Problem& problem, const std::vector<std::string>& parameters) {
  std::string line;
  if (!problem.file.empty()) line += printable(problem.file) + ": ";
  if (problem.offset) line += fmt::format("offset {}: ", *problem.offset);
  line += parameter_words(parameters);
  if (problem.rank) line += fmt::format("rank {}: ", *problem.rank);
  return line + problem.message;
}

/// Of many lines that differ in the parameter alone, one with all parameters.
std::vector<std::string> lines_of(const std::vector<Problem>& problems) {
  constexpr std::size_t kMany = 4;
  std::map<std::string, std::vector<std::string>> names;  // by the line without them
  const auto key = [](const Problem& problem) {
    return line_of(problem, {problem.parameter.empty() ? "" : "*"});
  };
  for (const Problem& problem : problems) names[key(problem)].push_back(problem.parameter);
  std::vector<std::string> lines;
  std::set<std::string> told;
  for (const Problem& problem : problems) {
    const std::vector<std::string>& parameters = names.at(key(problem));
    if (parameters.size() < kMany || problem.parameter.empty()) {
      lines.push_back(line_of(problem, {problem.parameter}));
    } else if (told.insert(key(problem)).second) {
      lines.push_back(line_of(problem, parameters));
    }
  }
  return lines;
}

std::string summary(const VerifyArguments& arguments, const VerifyReport& report) {
  const VerifyOptions& options = arguments.options;
  std::string text = fmt::format("{}: {}", printable(shown_location(arguments.source)),
                                 report.good()        ? "good"
                                 : report.damaged()   ? "damaged"
                                 : report.only_open() ? "not known to be complete"
                                 : report.unread()    ? "could not be read"
                                                      : "has parts that cannot be read");
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
  if (report.quantized > 0) text += ", " + counted(report.quantized, "quantized weight");
  if (!report.step.empty()) text += ", step " + report.step;
  text += report.crc_none == report.files
              ? "; no file has a CRC"
              : fmt::format("; CRC good in {}, none in {}", counted(report.crc_good, "file"),
                            counted(report.crc_none, "file"));
  if (!report.per_rank.empty()) {
    text += "; without a layout, and not the same on all ranks: " + name_list(report.per_rank);
  }
  if (!report.own_values.empty()) {
    text += "; replicas differ in " + counted(report.own_values.size(), "parameter") +
            ", as --replicas " + word_of(kReplicasWords, options.source.replicas) + " lets them";
  }
  const std::string completeness = completeness_words(report.completeness);
  return completeness.empty() ? text : text + "; " + completeness;
}

void print_text(const VerifyArguments& arguments, const VerifyReport& report) {
  const std::vector<std::string> lines = lines_of(report.problems);
  for (std::size_t i = 0; i < std::min(lines.size(), kShownProblems); ++i) {
    std::cout << lines[i] << "\n";
  }
  if (lines.size() > kShownProblems) {
    std::cout << fmt::format("... and {} more, which --json lists\n",
                             lines.size() - kShownProblems);
  }
  if (report.good() && arguments.log.quiet) return;
  std::cout << summary(arguments, report) << "\n";
}

void write_members(JsonWriter& json, const Problem& problem) {
  json.member("kind", name_of(problem.kind));
  json.member_or_null("rank", problem.rank);
  json.member_or_null("file", problem.file);
  json.member_or_null("parameter", problem.parameter);
  json.member_or_null("offset", problem.offset);
  json.member("differing_bytes", problem.differing_bytes);
  json.member("message", problem.message);
}

void write_members(JsonWriter& json, const VerifyArguments& arguments, const VerifyReport& report) {
  json.member("source", shown_location(arguments.source));
  json.member("step", report.step);
  json.member("good", report.good());
  json.member("files", report.files);
  json.member("parameters", report.parameters);
  json.member("quantized_weights", report.quantized);
  json.member("bytes", report.bytes);
  json.member("crc_good", report.crc_good);
  json.member("crc_none", report.crc_none);
  json.member("manifest_good", report.manifest_good);
  json.member("damaged_parameters", report.damaged_parameters);
  json.member("differing_bytes", report.differing_bytes);
  json.objects("problems", report.problems,
               [&](const Problem& problem) { write_members(json, problem); });
  json.texts("differ_between_ranks", report.per_rank);
  json.texts("differing_replicas", report.own_values);
  json.texts("warnings", report.warnings);
  write_completeness(json, report.completeness);
}

VerifyOptions verify_options(const Given& given) {
  VerifyOptions options;
  options.source = source_request(given, absolute_source(given.argument("SOURCE")));
  options.names.include = given.texts("include");
  options.names.exclude = given.texts("exclude");
  options.names.weights_only = given.flag("weights-only");
  if (given.has("against")) {
    options.manifest = existing_path(given, "against", "what sha256sum writes").value_or("none");
  }
  options.jobs = given.number_as<std::size_t>("jobs");
  return options;
}

void log_report(const VerifyReport& report) {
  for (const std::string& warning : report.warnings)
    log_warning(LogEvent::kConversionWarning, "{}", warning);
  for (const std::string& name : report.per_rank) {
    log_info(LogEvent::kFinding, "'{}' has no layout and differs between ranks", printable(name));
  }
  for (const std::string& name : report.own_values) {
    log_info(LogEvent::kFinding, "replicas of '{}' differ", printable(name));
  }
}

std::string json_of_report(const VerifyArguments& arguments, const VerifyReport& report) {
  return json_text([&](JsonWriter& json) { write_members(json, arguments, report); });
}

}  // namespace

std::string verify_json(const Given& given, Progress& progress) {
  apply_storage(given);
  const VerifyArguments arguments{given.argument("SOURCE"), verify_options(given), {}};
  const VerifyReport report = verify(arguments.options, progress);
  log_report(report);
  return json_of_report(arguments, report);
}

int run_verify(const Given& given) {
  const LogSettings log = log_settings(given);
  log.apply();
  apply_storage(given);
  const VerifyArguments arguments{given.argument("SOURCE"), verify_options(given), log};
  Progress progress;
  VerifyReport report;
  {
    ProgressDisplay display(progress, log.quiet, ShowProgress::kOnTerminal);
    display.sum_up_at_end();
    report = verify(arguments.options, progress);
  }
  log_report(report);
  if (given.flag("json")) {
    std::cout << json_of_report(arguments, report) << "\n";
  } else {
    print_text(arguments, report);
  }
  if (report.unread()) return kExitIo;
  return report.good() ? kExitDone : kExitDifference;
}

}  // namespace reshardfs
