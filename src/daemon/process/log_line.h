// SPDX-License-Identifier: Apache-2.0
/// What a line of the log says to programs: its fields, as JSON and as the journal takes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <spdlog/common.h>

#include "base/process/log_event.h"
#include "base/process/mount_record.h"

namespace reshardfs {

struct LogField {
  std::string_view name;  ///< of a literal, in lower case: "mount"
  /// A text with any bytes, a number, or a time, which is in seconds with six digits.
  std::variant<std::string, std::int64_t, std::chrono::nanoseconds> value;
};

/// The fields beside time, level, text and process, the event first. What is not known is left out.
/// @param scope nullptr: the event is "message".
std::vector<LogField> log_fields(const LogScope* scope, const MountName& mount);

struct LogLine {
  std::chrono::system_clock::time_point time{};
  spdlog::level::level_enum level = spdlog::level::info;
  std::string_view text{};
};

/// One JSON object without a line feed. Bytes that are no UTF-8 become U+FFFD.
std::string json_line(const LogLine& line, const std::vector<LogField>& fields);

/// In the format of systemd's native journal protocol: a datagram's contents.
/// @param message for MESSAGE=.
std::string journal_entry(spdlog::level::level_enum level, std::string_view message,
                          const std::vector<LogField>& fields);

/// As syslog(3) counts: 3 for an error.
int priority_of(spdlog::level::level_enum level) noexcept;

}  // namespace reshardfs
