// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/reload_request.h"

#include <nlohmann/json.hpp>

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Value value_of(const Json& json, const char* key, const Value& otherwise) {
  const Json value = json.is_object() ? json.value<Json>(key, Json()) : Json();
  try {
    return value.get<Value>();
  } catch (const Json::exception&) {
    return otherwise;
  }
}

std::optional<ReloadRequests> requests_in(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto number = [&json](const char* key) { return value_of(json, key, std::uint64_t{0}); };
  ReloadRequests requests;
  requests.taken = number("taken");
  requests.to_replace = number("to_replace");
  requests.answered = number("answered");
  requests.granted = number("granted");
  requests.replaced = number("replaced");
  return requests;
}

}  // namespace

Served served_of(const Json& status) {
  const Json mount = status.is_object() ? status.value<Json>("mount", Json()) : Json();
  const auto number = [&mount](const char* key) { return value_of(mount, key, std::uint64_t{0}); };
  return {.process = value_of(status, "pid", pid_t{0}),
          .version = value_of(mount, "version", std::string("?")),
          .processes = number("upgrades") + number("crash_restarts"),
          .crashes = number("crash_restarts"),
          .reloads = number("reloads"),
          .refusal = value_of(mount, "reload_refused", std::string()),
          .is_replacing = value_of(mount, "replacing", false),
          .requests = requests_in(value_of(mount, "reload_requests", Json()))};
}

ReloadRequest::Step ReloadRequest::ask(const Served& now) {
  // A supervisor gives a mount up after some crashes.
  constexpr std::uint64_t kMostCrashes = 3;
  if (now.crashes > before_.crashes) crashes_ += now.crashes - before_.crashes;
  if (crashes_ >= kMostCrashes) return Step::kCrashes;
  before_ = now;
  number_.reset();
  return Step::kAsk;
}

ReloadRequest::Step ReloadRequest::end(const Served& now) {
  constexpr int kMostTries = 10;
  if (now.is_replacing) return Step::kWait;
  // Perhaps of a file that was open at that moment, as this command's own looks are.
  if (now.refusal.ends_with("; try again") && refused_++ < kMostTries) return ask(now);
  return now.refusal.empty() ? Step::kDone : Step::kRefused;
}

ReloadRequest::Step ReloadRequest::next_of_old_program(const Served& now) {
  if (now.reloads > before_.reloads) return end(now);
  // The process ended with the request, and another one goes on with the mount.
  return now.processes != before_.processes ? ask(now) : Step::kWait;
}

ReloadRequest::Step ReloadRequest::next(const Served& now) {
  if (!now.requests || !before_.requests) return next_of_old_program(now);
  const ReloadRequests& requests = *now.requests;
  const std::uint64_t last = replace_ ? requests.to_replace : requests.taken;
  const std::uint64_t before = before_.requests->taken;
  // Whoever has made one that was taken since then: its attempt begins after this command did.
  if (!number_ && last > before) number_ = replace_ ? last : before + 1;
  if (!number_) {
    // It went with its process, or beside another request's signal that was not taken yet.
    const bool is_lost = now.processes != before_.processes || requests.taken != before;
    return is_lost ? ask(now) : Step::kWait;
  }
  if (requests.taken < *number_) return ask(now);  // a crash
  if (requests.answered < *number_) return Step::kWait;
  if ((replace_ ? requests.replaced : requests.granted) < *number_) {
    // What a process has refused that has crashed since then is not known any more.
    return now.refusal.empty() ? ask(now) : end(now);
  }
  return now.is_replacing ? Step::kWait : Step::kDone;
}

}  // namespace reshardfs
