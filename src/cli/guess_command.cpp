// SPDX-License-Identifier: Apache-2.0
/// reshardfs strategy guess
#include <filesystem>
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "check/slice_contents.h"
#include "checkpoint/checkpoint_set.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/progress_display.h"
#include "cli/words/shared_words.h"
#include "cli/words/source_request.h"
#include "cli/write_file.h"
#include "conversion/installed_maps.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "guess/guess.h"
#include "guess/guess_rules.h"
#include "guess/guess_words.h"
#include "modelmap/variables.h"
#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

struct GuessArguments {
  std::string source;
  std::string model_config;
  std::string output;  ///< - for standard output
  bool full = false;
  bool force = false;
  bool quiet = false;
};

/// That which the set is compared with, too.
std::filesystem::path config_file(const ModelQuestion& question) {
  std::filesystem::path file = config_of(question);
  const bool must_be_there = !question.config.empty();
  return must_be_there || path_kind(file) == PathKind::kOther ? file : std::filesystem::path();
}

std::optional<modelmap::ModelConfig> read_config(const std::filesystem::path& file) {
  if (file.empty()) return std::nullopt;
  try {
    return modelmap::ModelConfig::parse(read_small_file(file, modelmap::kMaxConfigBytes));
  } catch (Error& error) {
    error.in_file(file.string());
    throw;
  }
}

std::vector<std::string> header(const GuessArguments& arguments, const CheckpointSet& set,
                                const SlicedSet& slices, const std::filesystem::path& config,
                                const Guess& guess) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "Guessed by 'reshardfs strategy guess' from {}{}: {} in {}, {}; {}.",
      printable(shown_location(arguments.source)), set.step().empty() ? "" : ", step " + set.step(),
      counted(static_cast<std::size_t>(slices.stages * slices.devices), "rank"),
      counted(static_cast<std::size_t>(slices.stages), "pipeline stage"),
      arguments.full ? "all bytes compared" : "contents compared by samples",
      config.empty() ? "without a model configuration"
                     : "full shapes by " + printable(config.string())));
  lines.push_back(summary_words(guess) + ".");
  if (guess.count(Certainty::kProven) < guess.parameters.size()) {
    lines.emplace_back(
        "Of the rules that begin with '#', one is right, but the set does not show which: remove "
        "the "
        "'#' "
        "from it when you know. Until then, 'undecided' refuses its parameters, unless --exclude "
        "leaves them out.");
  }
  for (const std::string& doubt : guess.doubts) lines.push_back("Doubt: " + doubt + ".");
  return lines;
}

}  // namespace

int run_strategy_guess(const Given& given) {
  const GuessArguments arguments{.source = given.argument("DIR"),
                                 .model_config = given.text("model-config"),
                                 .output = given.has("output") ? given.text("output") : "-",
                                 .full = given.flag("full"),
                                 .force = given.flag("force"),
                                 .quiet = given.flag("quiet")};
  const SourceRequest request = set_request(given, located(arguments.source));
  const std::shared_ptr<const CheckpointSet> opened = open_set(request);
  const CheckpointSet& set = *opened;
  for (const std::string& warning : set.warnings()) complain(warning);
  ModelQuestion model = model_question(request, set);
  model.config = arguments.model_config;
  const std::filesystem::path file = config_file(model);
  const auto config = read_config(file);
  Progress progress;
  SlicedSet slices;
  {
    ProgressDisplay display(progress, arguments.quiet, ShowProgress::kOnTerminal);
    display.sum_up_at_end();
    slices = read_slices(set, arguments.full, progress);
  }
  for (const std::string& line : model_warnings(model)) complain(line);
  Guess guess = guess_strategy(slices, config, installed_maps());
  fit_into_one_matrix(guess);
  const std::string rules = guess_rules(guess, header(arguments, set, slices, file, guess));
  write_output(arguments.output, arguments.force, [&](const TextSink& sink) { sink(rules); });
  if (!arguments.quiet) {
    for (const std::string& line : model_warnings(ModelQuestion{set})) complain(line);
    for (const std::string& doubt : guess.doubts) complain(doubt);
    for (const std::string& question : open_questions(guess)) complain(question);
    std::cerr << summary_words(guess) << std::endl;
  }
  const bool decided = guess.count(Certainty::kProven) == guess.parameters.size();
  return decided ? kExitDone : kExitDifference;
}

}  // namespace reshardfs
