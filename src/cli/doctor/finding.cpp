// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/finding.h"

#include <array>
#include <utility>

#include <nlohmann/json.hpp>

namespace reshardfs {
namespace {

constexpr std::array<std::pair<Health, std::string_view>, 4> kHealthWords{
    {{Health::kOk, "ok"},
     {Health::kWarning, "warning"},
     {Health::kFailed, "failed"},
     {Health::kSkipped, "skipped"}}};

}  // namespace

std::string_view word_of(Health health) noexcept {
  for (const auto& [value, word] : kHealthWords) {
    if (value == health) return word;
  }
  return "failed";
}

Finding failed(const std::string& name, const Error& error) {
  std::string message = error.what();
  std::string remedy = error.hint();
  if (const std::string end = "; " + remedy; message.ends_with(end)) {
    message.erase(message.size() - end.size());
  } else {
    remedy = printable(remedy);  // so that it is in the message, too
  }
  return {.name = name, .health = Health::kFailed, .message = message, .remedy = remedy};
}

Finding skipped(const std::string& name, const std::string& message) {
  return {.name = name, .health = Health::kSkipped, .message = message};
}

Findings about(const std::string& subject, Findings findings) {
  for (Finding& finding : findings) {
    if (finding.subject.empty()) finding.subject = subject;
  }
  return findings;
}

nlohmann::ordered_json json_of(const Finding& finding) {
  nlohmann::ordered_json json{{"name", finding.name},
                              {"status", word_of(finding.health)},
                              {"message", finding.message},
                              {"remedy", finding.remedy}};
  if (!finding.subject.empty()) json["subject"] = finding.subject;
  return json;
}

Finding finding_of(const nlohmann::ordered_json& json) {
  Finding finding{.name = json.at("name"),
                  .message = json.at("message"),
                  .remedy = json.at("remedy"),
                  .subject = json.value("subject", "")};
  const std::string status = json.at("status");
  for (const auto& [value, word] : kHealthWords) {
    if (word == status) finding.health = value;
  }
  return finding;
}

}  // namespace reshardfs
