// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/process/signals.h"
#include "base/version.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/doctor/config_checks.h"
#include "cli/doctor/fstab_checks.h"
#include "cli/doctor/machine_checks.h"
#include "cli/doctor/mount_checks.h"
#include "cli/doctor/round_trip.h"
#include "report/text/json_output.h"

namespace reshardfs {
namespace {

/// In the order in which they depend on each other.
Findings examine(const Given& given) {
  const BoundedChecks bounded(std::chrono::seconds(given.number("timeout").value()));
  std::vector<std::string> sources = given.arguments_of("SOURCE");
  Findings findings = bounded.run("machine", "this machine", check_machine);
  const auto add = [&](Findings more) {
    findings.insert(findings.end(), more.begin(), more.end());
  };
  if (given.has("config")) add(check_config(given.text("config"), sources, bounded));
  if (given.has("fstab")) add(check_fstab(given.text("fstab"), bounded));
  for (const std::string& source : sources) add(about(source, check_source(source, bounded)));
  {
    // The sample mount is removed again.
    const StopSignals stop;
    findings.push_back(check_round_trip(bounded));
    if (stop.flag()) std::exit(stop.exit_code());
  }
  return findings;
}

Health worst_of(const Findings& findings) {
  const auto has = [&](Health health) {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.health == health; });
  };
  if (has(Health::kFailed)) return Health::kFailed;
  return has(Health::kWarning) ? Health::kWarning : Health::kOk;
}

void print_text(const Findings& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  std::string subject;
  for (const Finding& finding : findings) {
    if (finding.subject != subject) {
      subject = finding.subject;
      std::cout << '\n' << (subject.empty() ? "this machine" : printable(subject)) << ":\n";
    }
    std::cout << fmt::format("{:9}{:{}}  {}\n", word_of(finding.health), finding.name, width,
                             finding.message);
    if (!finding.remedy.empty()) {
      std::cout << fmt::format("{:9}{:{}}  -> {}\n", "", "", width, finding.remedy);
    }
  }
}

void print_json(const Findings& findings) {
  write_json([&](JsonWriter& json) {
    json.member("version", kVersion);
    json.member("status", word_of(worst_of(findings)));
    write_findings(json, findings);
  });
}

}  // namespace

int run_doctor(const Given& given) {
  const Findings findings = examine(given);
  if (given.flag("json")) {
    print_json(findings);
  } else {
    print_text(findings);
  }
  return worst_of(findings) == Health::kFailed ? kExitDifference : kExitDone;
}

}  // namespace reshardfs
