// SPDX-License-Identifier: Apache-2.0
/// The only way to the log: each line names its kind of event.
#pragma once

#include <utility>

#include <spdlog/spdlog.h>

#include "base/process/log_event.h"

namespace reshardfs {

template <typename... Arguments>
void log_event(spdlog::level::level_enum level, LogEvent event,
               spdlog::format_string_t<Arguments...> format, Arguments&&... arguments) {
  const LogScope scope(event);
  spdlog::log(level, format, std::forward<Arguments>(arguments)...);
}

template <typename... Arguments>
void log_error(LogEvent event, spdlog::format_string_t<Arguments...> format,
               Arguments&&... arguments) {
  log_event(spdlog::level::err, event, format, std::forward<Arguments>(arguments)...);
}

template <typename... Arguments>
void log_warning(LogEvent event, spdlog::format_string_t<Arguments...> format,
                 Arguments&&... arguments) {
  log_event(spdlog::level::warn, event, format, std::forward<Arguments>(arguments)...);
}

template <typename... Arguments>
void log_info(LogEvent event, spdlog::format_string_t<Arguments...> format,
              Arguments&&... arguments) {
  log_event(spdlog::level::info, event, format, std::forward<Arguments>(arguments)...);
}

}  // namespace reshardfs
