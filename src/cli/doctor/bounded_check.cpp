// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/bounded_check.h"

#include <exception>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "daemon/status/bounded_task.h"

namespace reshardfs {
namespace {

Findings checked(const std::string& name, const std::function<Findings()>& check) {
  try {
    return check();
  } catch (const Error& error) {
    return {failed(name, error)};
  } catch (const std::exception& error) {  // of <filesystem>, or there is no memory
    return {failed(name, Error(ErrorKind::kIo, error.what()))};
  }
}

std::string text_of(const Findings& findings) {
  auto json = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) json.push_back(json_of(finding));
  // Names from files may be no UTF-8.
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

Findings BoundedChecks::run(const std::string& name, const std::string& what,
                            const std::function<Findings()>& check) const {
  std::optional<TaskResult> result;
  try {
    BoundedTask task([&] { return TaskResult{.text = text_of(checked(name, check))}; });
    result = task.wait_until(BoundedTask::Clock::now() + limit_);
  } catch (const Error& error) {
    return {failed(name, error)};
  }
  if (!result || result->text.empty()) {
    return {{.name = name,
             .health = Health::kFailed,
             .message = fmt::format("{}: no answer within {} s", printable(what), limit_.count()),
             .remedy = "see whether its server or its disk answers; --timeout waits longer"}};
  }
  Findings findings;
  for (const auto& json : nlohmann::ordered_json::parse(result->text)) {
    findings.push_back(finding_of(json));
  }
  return findings;
}

}  // namespace reshardfs
