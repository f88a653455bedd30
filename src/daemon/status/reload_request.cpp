// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/reload_request.h"

namespace reshardfs {
namespace {

ReloadRequests requests_in(const JsonValue& json) {
  ReloadRequests requests;
  requests.taken = json["taken"].count();
  requests.to_replace = json["to_replace"].count();
  requests.answered = json["answered"].count();
  requests.granted = json["granted"].count();
  requests.replaced = json["replaced"].count();
  return requests;
}

}  // namespace

Served served_of(const JsonValue& status) {
  const JsonValue mount = status["mount"];
  const std::uint64_t crashes = mount["crash_restarts"].count();
  const JsonValue requests = mount["reload_requests"];
  return {.process = static_cast<pid_t>(status["pid"].count()),
          .version = std::string(mount["version"].text().value_or("?")),
          .processes = mount["upgrades"].count() + crashes,
          .crashes = crashes,
          .reloads = mount["reloads"].count(),
          .refusal = std::string(mount["reload_refused"].text().value_or("")),
          .is_replacing = mount["replacing"].boolean() == true,
          .requests = requests.is_object() ? std::optional(requests_in(requests)) : std::nullopt};
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
