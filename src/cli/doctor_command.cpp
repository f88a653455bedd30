// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/doctor_checks.h"
#include "report/text/json_output.h"

namespace reshardfs {
namespace {

std::string_view word(Health health) {
  switch (health) {
    case Health::kGood:
      return "good";
    case Health::kLimited:
      return "limited";
    case Health::kBad:
      return "bad";
  }
  return "bad";
}

void print_text(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.what.size());
  for (const Finding& finding : findings) {
    std::cout << fmt::format("{:8}{:{}}  {}\n", word(finding.health), finding.what, width,
                             finding.found);
    if (!finding.advice.empty()) {
      std::cout << fmt::format("{:8}{:{}}  -> {}\n", "", "", width, finding.advice);
    }
  }
}

void print_json(const std::vector<Finding>& findings, bool good) {
  nlohmann::ordered_json json{{"version", kVersion}, {"good", good}};
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"what", finding.what},
                                {"health", word(finding.health)},
                                {"found", finding.found},
                                {"advice", finding.advice}});
  }
  write_json(json);
}

}  // namespace

int run_doctor(const Given& given) {
  const std::vector<Finding> findings = examine(given.arguments_of("SOURCE"));
  const bool good = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.health == Health::kBad;
  });
  if (given.flag("json")) {
    print_json(findings, good);
  } else {
    print_text(findings);
  }
  return good ? kExitDone : kExitDifference;
}

}  // namespace reshardfs
