// SPDX-License-Identifier: Apache-2.0
#include "base/process/failure_log.h"

#include <exception>
#include <utility>

namespace reshardfs {

void FailureLog::log(const std::string& line, const Kind& kind, std::uint64_t repeated) {
  LogFields fields = kind.fields;
  fields.repeated = repeated;
  const LogScope scope(kind.event, std::move(fields));
  log_(line);
}

/// Needs mutex_.
void FailureLog::tell(Kind& kind) {
  if (kind.more == 0) return;
  const std::string times = kind.more == 1 ? "once" : std::to_string(kind.more) + " times";
  log(kind.line + " (this came " + times + " more)", kind, kind.more);
  kind.more = 0;
}

void FailureLog::add(const Failure& failure, const std::function<LogFields()>& fields,
                     Clock::time_point now) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    std::string key = failure.file + '\0' + failure.cause;
    // The rest has the empty key.
    if (kinds_.size() >= kMaxKinds && !kinds_.contains(key)) key.clear();
    const auto [found, is_new] = kinds_.try_emplace(std::move(key));
    Kind& kind = found->second;
    kind.event = failure.event;
    const bool reports = is_new || now - kind.told >= kInterval;
    if (reports) {
      kind.fields = fields ? fields() : LogFields{};
      kind.told = now;
    }
    if (is_new) return log(failure.line, kind, 0);
    ++kind.more;
    kind.line = failure.line;
    if (reports) tell(kind);
  } catch (const std::exception&) {
    // No memory for a message: the program that asked still gets its errno.
  }
}

void FailureLog::tell_counts() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    for (auto& [key, kind] : kinds_) {
      // Of the program that has asked last nothing is known any more.
      kind.fields.client_pid = 0;
      kind.fields.client_cgroup.clear();
      kind.fields.duration.reset();
      tell(kind);
    }
  } catch (const std::exception&) {
    // No memory for a message; the counts are told later.
  }
}

}  // namespace reshardfs
