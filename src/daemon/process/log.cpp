// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>

#include "reshardfs/error.h"

#include "base/process/failure_log.h"
#include "base/process/fault_report.h"

namespace reshardfs {
namespace {

/// The logger has this one sink for good, because a logger cannot be replaced while threads use it.
/// What is behind the sink can.
const std::shared_ptr<spdlog::sinks::dist_sink_mt>& switchable_sink() {
  static const auto sink = std::make_shared<spdlog::sinks::dist_sink_mt>();
  return sink;
}

std::function<std::string()>& log_level_source() {
  static std::function<std::string()> source;
  return source;
}

spdlog::level::level_enum level_of(const std::string& name) {
  if (name == "error") return spdlog::level::err;
  if (name == "info") return spdlog::level::info;
  if (name == "debug") return spdlog::level::debug;
  if (name.empty() || name == "warning") return spdlog::level::warn;
  throw Error(ErrorKind::kUsage, "there is no log level '" + printable(name) + "'")
      .hint("the levels are error, warning, info and debug");
}

/// Whether standard error leads to the journal: systemd says which device and inode that is.
bool is_journal() {
  const char* journal = std::getenv("JOURNAL_STREAM");
  struct stat stat {};
  if (journal == nullptr || ::fstat(STDERR_FILENO, &stat) != 0) return false;
  return fmt::format("{}:{}", stat.st_dev, stat.st_ino) == journal;
}

class PriorityFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = journal_priority(message.level);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PriorityFlag>();
  }
};

spdlog::sink_ptr stderr_sink() {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PriorityFlag>('*').set_pattern("%*reshardfs: %l: %v");
  sink->set_formatter(std::move(formatter));
  return sink;
}

/// @throws Error kIo
spdlog::sink_ptr file_sink(const std::string& file) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z [%P] %l: %v");
    return sink;
  } catch (const spdlog::spdlog_ex&) {
    throw io_error("open the log file", file, errno);
  }
}

}  // namespace

void LogSettings::apply() const {
  set_fault_listener([](const std::string& cause, const std::string& text) {
    static FailureLog faults([](const std::string& line) { spdlog::warn("{}", line); });
    faults.add("", cause, text);
  });
  switchable_sink()->set_sinks({file.empty() ? stderr_sink() : file_sink(file)});
  auto logger = std::make_shared<spdlog::logger>("reshardfs", switchable_sink());
  const std::string from_flags = quiet ? "error" : verbose ? "info" : "warning";
  logger->set_level(level_of(level.empty() ? from_flags : level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void LogSettings::leave_terminal() const {
  if (!file.empty()) return;
  switchable_sink()->set_sinks({std::make_shared<spdlog::sinks::syslog_sink_mt>(
      "reshardfs", LOG_PID, LOG_DAEMON, /*enable_formatting=*/false)});
}

void LogSettings::reload() const noexcept {
  try {
    if (!file.empty()) switchable_sink()->set_sinks({file_sink(file)});
    if (log_level_source()) {
      spdlog::default_logger_raw()->set_level(level_of(log_level_source()()));
    }
    const auto name = spdlog::level::to_string_view(spdlog::default_logger_raw()->level());
    spdlog::info("the log continues here, at level {}", fmt::string_view(name.data(), name.size()));
  } catch (const std::exception& error) {
    spdlog::error("the log could not be reopened, and continues unchanged: {}", error.what());
  }
}

void set_log_level_source(std::function<std::string()> source) {
  log_level_source() = std::move(source);
}

std::string journal_priority(spdlog::level::level_enum level) {
  static const bool to_journal = is_journal();
  if (!to_journal) return "";
  constexpr int kError = 3;
  constexpr int kWarning = 4;
  constexpr int kInfo = 6;
  constexpr int kDebug = 7;
  switch (level) {
    case spdlog::level::critical:
    case spdlog::level::err:
      return fmt::format("<{}>", kError);
    case spdlog::level::warn:
      return fmt::format("<{}>", kWarning);
    case spdlog::level::info:
      return fmt::format("<{}>", kInfo);
    default:
      return fmt::format("<{}>", kDebug);
  }
}

}  // namespace reshardfs
