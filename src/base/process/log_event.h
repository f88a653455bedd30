// SPDX-License-Identifier: Apache-2.0
/// What lines of the log are about, for programs that read them: the kinds of events, and the facts
/// beside the text.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reshardfs {

/// The kinds of events. Names stay as they are once they are released: alerts look for them.
/// docs/operations.md lists them in this order.
enum class LogEvent : std::uint8_t {
  kMessage,
  kMounted,
  kMountEnded,
  kMountFailed,
  kMountLeft,
  kSourceAwaited,
  kSourceStalled,
  kStallOver,
  kConversionWarning,
  kConversionNote,
  kFinding,
  kCommandFailed,
  kRequestFailed,
  kReadsAbandoned,
  kReplicaRead,
  kCacheFailed,
  kThreadsLacking,
  kStepOpened,
  kStepRefused,
  kStepIncomplete,
  kStepsUnknown,
  kHandedOver,
  kHandOverRefused,
  kHandOverImpossible,
  kProcessCrashed,
  kCrashLimit,
  kTakeOverFailed,
  kKernelCacheStale,
  kPassthroughOff,
  kReadAheadUnset,
  kSocketIgnored,
  kLogReopened,
  kLogNotReopened,
};
inline constexpr std::array<std::string_view, 33> kLogEventNames = {
    "message",
    "mounted",
    "mount_ended",
    "mount_failed",
    "mount_left",
    "source_awaited",
    "source_stalled",
    "stall_over",
    "conversion_warning",
    "conversion_note",
    "finding",
    "command_failed",
    "request_failed",
    "reads_abandoned",
    "replica_read",
    "cache_failed",
    "threads_lacking",
    "step_opened",
    "step_refused",
    "step_incomplete",
    "steps_unknown",
    "handed_over",
    "hand_over_refused",
    "hand_over_impossible",
    "process_crashed",
    "crash_limit",
    "take_over_failed",
    "kernel_cache_stale",
    "passthrough_off",
    "read_ahead_unset",
    "socket_ignored",
    "log_reopened",
    "log_not_reopened",
};

constexpr std::string_view name_of(LogEvent event) noexcept {
  return kLogEventNames.at(static_cast<std::size_t>(event));
}

/// The facts of one line beside its text. What is not known is left out. Texts may hold any bytes.
struct LogFields {
  std::string_view operation{};  ///< of a literal: "read", "lookup"
  std::string file{};            ///< below the mount point
  std::string source_file{};
  std::string parameter{};
  int error = 0;  ///< the errno that a program got, or why something failed; 0: none
  pid_t client_pid = 0;
  std::string client_cgroup{};                         ///< as in /proc/PID/cgroup
  std::optional<std::chrono::nanoseconds> duration{};  ///< of the request, waiting included
  std::uint64_t repeated = 0;  ///< how often the same came since it was last told
};

/// While it lives, it says what the lines are about that this thread logs. Scopes may be nested:
/// the inner one's event holds, with the fields of the outer one if it has none of its own.
class LogScope {
 public:
  explicit LogScope(LogEvent event) noexcept;
  LogScope(LogEvent event, LogFields fields) noexcept;
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;
  ~LogScope();

  /// That of this thread; nullptr: none.
  static const LogScope* current() noexcept;

  LogEvent event() const noexcept { return event_; }
  const LogFields& fields() const noexcept { return *fields_; }

 private:
  const LogEvent event_;
  const LogFields own_;
  const LogScope* const outer_;
  const LogFields* const fields_;
};

/// "EIO", also where the C library has no name for it ("errno 4711").
std::string errno_name(int error);

}  // namespace reshardfs
