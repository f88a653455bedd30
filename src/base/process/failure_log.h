// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/engine.h"
#include "base/process/log_event.h"

namespace reshardfs {

/// Reports failures without flooding the log: of each file and cause the first one in full, and how
/// often it came again at most once a minute, when it comes again, and at the end.
/// Every member function may be called from any number of threads at once.
class FailureLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kInterval{60};
  /// Files and causes that are told apart; further ones are counted together.
  static constexpr std::size_t kMaxKinds = 1000;

  struct Failure {
    LogEvent event = LogEvent::kMessage;
    std::string file{};  ///< it and `cause` tell failures apart
    std::string cause{};
    std::string line{};  ///< reports this one
  };

  /// @param log writes a line, inside a LogScope with its event and fields; must not throw.
  explicit FailureLog(std::function<void(const std::string& line)> log) : log_(std::move(log)) {}
  FailureLog(const FailureLog&) = delete;
  FailureLog& operator=(const FailureLog&) = delete;
  ~FailureLog() { tell_counts(); }

  /// @param fields makes the facts of this one; called only if it is reported now.
  RESHARDFS_ENGINE void add(const Failure& failure, const std::function<LogFields()>& fields = {},
                            Clock::time_point now = Clock::now()) noexcept;
  /// Reports what has been counted since.
  void tell_counts() noexcept;

 private:
  struct Kind {
    Clock::time_point told{};
    std::uint64_t more = 0;  ///< since then
    std::string line;        ///< the last one
    LogEvent event = LogEvent::kMessage;
    LogFields fields;  ///< of the last one that was reported
  };
  void log(const std::string& line, const Kind& kind, std::uint64_t repeated);
  void tell(Kind& kind);

  const std::function<void(const std::string&)> log_;
  std::mutex mutex_;
  std::unordered_map<std::string, Kind> kinds_;  ///< guarded by mutex_
};

}  // namespace reshardfs
