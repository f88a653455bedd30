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

struct DoctorArguments {
  std::vector<std::string> sources;
  bool json = false;
};

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

int run_doctor(const DoctorArguments& arguments) {
  const std::vector<Finding> findings = examine(arguments.sources);
  const bool good = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.health == Health::kBad;
  });
  if (arguments.json) {
    print_json(findings, good);
  } else {
    print_text(findings);
  }
  return good ? kExitDone : kExitDifference;
}

}  // namespace

void add_doctor_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Check whether this machine can mount, and how to fix it if not");
  command->add_option("SOURCE", arguments->sources,
                      "Checkpoints to open as well; only their headers are read");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer("Example:\n  reshardfs doctor /data/ckpt");
  command->callback(
      [&action, arguments] { action = [arguments] { return run_doctor(*arguments); }; });
}

}  // namespace reshardfs
