// SPDX-License-Identifier: Apache-2.0
#include "cli/json_answer.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "cli/options/table.h"
#include "cli/words/check_given.h"
#include "cli/words/config_words.h"

namespace reshardfs {
namespace {

struct Answer {
  Commands command;
  std::string (*give)(const Given&, Progress&);
};

constexpr std::array<Answer, 5> kAnswers{{{commands::kInspect, inspect_json},
                                          {commands::kPlan, plan_json},
                                          {commands::kVerify, verify_json},
                                          {commands::kDiff, diff_json},
                                          {commands::kExport, export_json}}};

/// The log is that of the program that calls.
void refuse_log_options(const Given& given) {
  for (const char* name : {"verbose", "quiet", "log-level", "log-file", "log-format"}) {
    if (find_option(given.command(), name) == nullptr || !given.has(name)) continue;
    throw Error(ErrorKind::kUsage, fmt::format("--{} is for the program reshardfs alone", name));
  }
}

}  // namespace

std::string json_answer(Given given, Progress& progress) {
  refuse_log_options(given);
  // What excludes it is about printing.
  if (const Option* const json = find_option(given.command(), "json")) {
    given.options.push_back({json, "true"});
  }
  add_config_words(given);
  check_given(given);
  const auto* const found =
      std::find_if(kAnswers.begin(), kAnswers.end(),
                   [&](const Answer& answer) { return answer.command == given.command().bit; });
  if (found == kAnswers.end()) {
    throw Error(ErrorKind::kInternal, given.command().name + " has no answer in JSON");
  }
  return found->give(given, progress);
}

}  // namespace reshardfs
