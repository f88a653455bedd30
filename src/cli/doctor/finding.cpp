// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/finding.h"

#include <array>
#include <utility>

namespace reshardfs {
namespace {

constexpr std::array<std::pair<Health, std::string_view>, 4> kHealthWords{
    {{Health::kOk, "ok"},
     {Health::kWarning, "warning"},
     {Health::kFailed, "failed"},
     {Health::kSkipped, "skipped"}}};

Health health_of(std::string_view text) noexcept {
  for (const auto& [value, word] : kHealthWords) {
    if (word == text) return value;
  }
  return Health::kFailed;
}

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

void write_findings(JsonWriter& json, const Findings& findings) {
  json.objects("checks", findings, [&](const Finding& finding) {
    json.member("name", finding.name);
    json.member("status", word_of(finding.health));
    json.member("message", finding.message);
    json.member("remedy", finding.remedy);
    if (!finding.subject.empty()) json.member("subject", finding.subject);
  });
}

Findings findings_of(const JsonValue& json) {
  Findings findings;
  for (const JsonValue check : json["checks"]) {
    const auto text = [&](const char* key) { return std::string(check[key].text().value_or("")); };
    findings.push_back({.name = text("name"),
                        .health = health_of(text("status")),
                        .message = text("message"),
                        .remedy = text("remedy"),
                        .subject = text("subject")});
  }
  return findings;
}

}  // namespace reshardfs
