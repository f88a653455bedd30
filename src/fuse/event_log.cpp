// SPDX-License-Identifier: Apache-2.0
#include "fuse/event_log.h"

#include <new>
#include <string>

// It takes two seconds to compile: here, and where the log is made.
#include <spdlog/spdlog.h>

namespace reshardfs {
namespace {

spdlog::level::level_enum level_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void write_log(LogLevel level, fmt::string_view format, fmt::format_args values) {
  spdlog::logger& log = *spdlog::default_logger_raw();
  const spdlog::level::level_enum its = level_of(level);
  if (!log.should_log(its)) return;
  try {
    const std::string text = fmt::vformat(format, values);
    log.log(its, spdlog::string_view_t(text));
  } catch (const std::bad_alloc&) {
    log.log(its, format);
  }
}

void flush_log() {
  spdlog::default_logger_raw()->flush();
}

void silence_log() {
  spdlog::set_level(spdlog::level::off);
}

}  // namespace reshardfs
