// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/bounded_check.h"

#include <exception>
#include <optional>

#include <fmt/format.h>

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
  JsonWriter json(kCompactJson);  // names from files may be no UTF-8
  json.open_object();
  write_findings(json, findings);
  json.close_object();
  return json.take();
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
  const auto document = result ? JsonDocument::parse(result->text) : std::nullopt;
  if (!document) {
    return {{.name = name,
             .health = Health::kFailed,
             .message = fmt::format("{}: no answer within {} s", printable(what), limit_.count()),
             .remedy = "see whether its server or its disk answers; --timeout waits longer"}};
  }
  return findings_of(document->value());
}

}  // namespace reshardfs
