// SPDX-License-Identifier: Apache-2.0
/// The only way to the log: each line names its kind of event.
#pragma once

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/process/log_event.h"

namespace reshardfs {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// Writes a line of the event whose scope this is. Where memory lacks, the line is the format as it
/// stands.
void write_log(LogLevel level, fmt::string_view format, fmt::format_args values);

/// Writes what the log still holds.
void flush_log();

/// Of this process, from now on.
void silence_log();

template <typename... Values>
void log_event(LogLevel level, LogEvent event, fmt::format_string<Values...> format,
               Values&&... values) {
  const LogScope scope(event);
  write_log(level, format, fmt::make_format_args(values...));
}

template <typename... Values>
void log_error(LogEvent event, fmt::format_string<Values...> format, Values&&... values) {
  log_event<Values...>(LogLevel::kError, event, format, std::forward<Values>(values)...);
}

template <typename... Values>
void log_warning(LogEvent event, fmt::format_string<Values...> format, Values&&... values) {
  log_event<Values...>(LogLevel::kWarning, event, format, std::forward<Values>(values)...);
}

template <typename... Values>
void log_info(LogEvent event, fmt::format_string<Values...> format, Values&&... values) {
  log_event<Values...>(LogLevel::kInfo, event, format, std::forward<Values>(values)...);
}

}  // namespace reshardfs
