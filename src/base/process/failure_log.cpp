// SPDX-License-Identifier: Apache-2.0
#include "base/process/failure_log.h"

#include <exception>
#include <utility>

namespace reshardfs {

/// Needs mutex_.
void FailureLog::tell(Kind& kind) {
  if (kind.more == 0) return;
  const std::string times = kind.more == 1 ? "once" : std::to_string(kind.more) + " times";
  log_(kind.line + " (this came " + times + " more)");
  kind.more = 0;
}

void FailureLog::add(const std::string& file, const std::string& cause, const std::string& line,
                     Clock::time_point now) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    std::string key = file + '\0' + cause;
    // The rest has the empty key.
    if (kinds_.size() >= kMaxKinds && !kinds_.contains(key)) key.clear();
    const auto [found, is_new] = kinds_.try_emplace(std::move(key));
    Kind& kind = found->second;
    if (is_new) {
      log_(line);
      kind.told = now;
      return;
    }
    ++kind.more;
    kind.line = line;
    if (now - kind.told < kInterval) return;
    tell(kind);
    kind.told = now;
  } catch (const std::exception&) {
    // No memory for a message: the program that asked still gets its errno.
  }
}

void FailureLog::tell_counts() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    for (auto& [key, kind] : kinds_) tell(kind);
  } catch (const std::exception&) {
    // As in add().
  }
}

}  // namespace reshardfs
