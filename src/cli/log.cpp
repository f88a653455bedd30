// SPDX-License-Identifier: Apache-2.0
#include "cli/log.h"

#include <cerrno>
#include <memory>
#include <utility>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>

#include "reshardfs/error.h"

namespace reshardfs {

void LogArguments::add_to(CLI::App& command) {
  auto* more = command.add_flag("-v,--verbose", verbose, "Say what was found and chosen");
  auto* less = command.add_flag("-q,--quiet", quiet, "Say errors only");
  less->excludes(more);
  command
      .add_option(
          "--log-file", file,
          "Write the log here instead of to standard error, and of a daemon to the system's log")
      ->type_name("FILE")
      ->take_last();
}

void LogArguments::apply() const {
  spdlog::sink_ptr sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_pattern("reshardfs: %l: %v");
  if (!file.empty()) {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    } catch (const spdlog::spdlog_ex&) {
      throw io_error("open the log file", file, errno);
    }
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z [%P] %l: %v");
  }
  use(std::move(sink));
}

void LogArguments::leave_terminal() const {
  if (!file.empty()) return;
  auto sink = std::make_shared<spdlog::sinks::syslog_sink_mt>("reshardfs", LOG_PID, LOG_DAEMON,
                                                              /*enable_formatting=*/false);
  use(std::move(sink));
}

void LogArguments::use(spdlog::sink_ptr sink) const {
  auto logger = std::make_shared<spdlog::logger>("reshardfs", std::move(sink));
  logger->set_level(quiet     ? spdlog::level::err
                    : verbose ? spdlog::level::info
                              : spdlog::level::warn);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace reshardfs
