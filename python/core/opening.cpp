// SPDX-License-Identifier: Apache-2.0
#include "core/opening.h"

#include <algorithm>
#include <array>
#include <mutex>

#include <CLI/CLI.hpp>

#include "reshardfs/error.h"

#include "base/process/process_state.h"
#include "cli/words/command_words.h"
#include "cli/words/conversion_arguments.h"
#include "cli/words/usage_answers.h"

namespace reshardfs::python {
namespace {

/// About a process of its own: the caller has a log, and hands over options itself.
constexpr std::array kOfPrograms{"--config", "--verbose", "--quiet", "--log-level", "--log-file"};

/// What is said of servers and the cache holds for the process, and is read while a source opens.
ProcessState<std::mutex> one_at_a_time("opening of Python's checkpoints", make_new<std::mutex>);

ConversionOptions parsed(std::vector<std::string> words) {
  CLI::App app("", "reshardfs");
  app.set_help_flag();
  ConversionArguments arguments;
  CLI::App* command = app.add_subcommand("mount", "");
  command->add_option("SOURCE", arguments.source)->required();
  arguments.add_to(*command);
  for (const char* name : kOfPrograms) command->remove_option(command->get_option(name));
  words.insert(words.begin(), "mount");
  check_command_words(app, words);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::kUsage, usage_answer(app, error));
  }
  return arguments.options();
}

std::vector<Rank> shown_ranks(std::vector<Rank> ranks, const Conversion& conversion) {
  const RankRange all(Rank(), conversion.rank_count());
  if (ranks.empty()) return {all.begin(), all.end()};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace

OpenedSource open_source(std::vector<std::string> words) {
  const std::lock_guard lock(one_at_a_time.get());
  const ConversionOptions options = parsed(std::move(words));
  Conversion conversion = Conversion::open(options);
  std::vector<Rank> ranks = shown_ranks(options.ranks, conversion);
  return {std::move(conversion), std::move(ranks)};
}

}  // namespace reshardfs::python
