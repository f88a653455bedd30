// SPDX-License-Identifier: Apache-2.0
/// What becomes of a statement: warnings, or a refusal.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/error.h"

#include "checkpoint/completeness.h"
#include "conversion/stated_model/stated_model.h"

namespace reshardfs {

std::vector<std::string> model_warnings(const ModelQuestion& question) {
  Completeness statement = state_model(question);
  name_missing(statement);
  return warnings_of(statement, question.takes);
}

std::optional<Error> flaw_of_model(const Completeness& statement) {
  if (!statement.missing.empty()) {
    return Error(statement.missing.front())
        .hint("bring the files that have the rest, or give --partial to show what is there");
  }
  const auto size =
      std::find_if(statement.differences.begin(), statement.differences.end(),
                   [](const Error& error) { return error.kind() == ErrorKind::kBadInput; });
  if (size == statement.differences.end()) return std::nullopt;
  return Error(*size).hint(
      "give the config.json of this model with --model-config, or --partial to show it as it is");
}

void name_missing(Completeness& statement) {
  for (const Error& error : statement.missing) statement.doubts.emplace_back(error.what());
  statement.missing.clear();
}

}  // namespace reshardfs
