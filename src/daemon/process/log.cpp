// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/log.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>

#include "reshardfs/error.h"

#include "base/process/failure_log.h"
#include "base/process/fault_report.h"
#include "base/process/mount_record.h"
#include "daemon/process/journal.h"
#include "daemon/process/log_line.h"
#include "fuse/event_log.h"

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

std::atomic<LogFormat> complaint_format = LogFormat::kText;

/// "<3>" for an error, and so on, if standard error is the journal, which takes priorities like
/// that; else nothing.
std::string priority_prefix(spdlog::level::level_enum level) {
  static const bool to_journal = error_output_is_journal();
  return to_journal ? fmt::format("<{}>", priority_of(level)) : "";
}

class PriorityFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = priority_prefix(message.level);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PriorityFlag>();
  }
};

std::string json_of(const spdlog::details::log_msg& message) {
  return json_line({.time = message.time,
                    .level = message.level,
                    .text = {message.payload.data(), message.payload.size()}},
                   log_fields(LogScope::current(), mount_name()));
}

class JsonFormatter : public spdlog::formatter {
 public:
  /// @param ending of each line.
  /// @param has_priority where it goes to standard error.
  JsonFormatter(std::string ending, bool has_priority)
      : ending_(std::move(ending)), has_priority_(has_priority) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string line =
        (has_priority_ ? priority_prefix(message.level) : "") + json_of(message) + ending_;
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<formatter> clone() const override {
    return std::make_unique<JsonFormatter>(ending_, has_priority_);
  }

 private:
  const std::string ending_;
  const bool has_priority_;
};

std::unique_ptr<spdlog::formatter> text_formatter(const char* pattern, const char* ending) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::local,
                                                               std::string(ending));
  formatter->add_flag<PriorityFlag>('*').set_pattern(pattern);
  return formatter;
}

/// Sends lines with their fields.
class JournalSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  /// @param otherwise takes the lines that the journal does not.
  JournalSink(std::unique_ptr<spdlog::formatter> message, spdlog::sink_ptr otherwise)
      : base_sink(std::move(message)), otherwise_(std::move(otherwise)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    const std::string entry = journal_entry(message.level, {text.data(), text.size()},
                                            log_fields(LogScope::current(), mount_name()));
    if (!journal_.send(entry)) otherwise_->log(message);
  }
  void flush_() override { otherwise_->flush(); }

  const Journal journal_;
  const spdlog::sink_ptr otherwise_;
};

spdlog::sink_ptr with_journal(LogFormat format, const char* pattern, spdlog::sink_ptr otherwise) {
  if (!Journal().is_there()) return otherwise;
  std::unique_ptr<spdlog::formatter> message = format == LogFormat::kJson
                                                   ? std::make_unique<JsonFormatter>("", false)
                                                   : text_formatter(pattern, "");
  return std::make_shared<JournalSink>(std::move(message), std::move(otherwise));
}

spdlog::sink_ptr stderr_sink(LogFormat format) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  if (format == LogFormat::kJson) {
    sink->set_formatter(std::make_unique<JsonFormatter>("\n", true));
  } else {
    sink->set_formatter(text_formatter("%*reshardfs: %l: %v", "\n"));
  }
  if (!error_output_is_journal()) return sink;
  return with_journal(format, "reshardfs: %l: %v", std::move(sink));
}

spdlog::sink_ptr system_log_sink(LogFormat format) {
  const bool json = format == LogFormat::kJson;
  auto sink = std::make_shared<spdlog::sinks::syslog_sink_mt>("reshardfs", LOG_PID, LOG_DAEMON,
                                                              /*enable_formatting=*/json);
  if (json) sink->set_formatter(std::make_unique<JsonFormatter>("", false));
  if (!system_log_is_journal()) return sink;
  return with_journal(format, "%v", std::move(sink));
}

/// A fork must not copy a lock that is held.
class ListenerSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit ListenerSink(LogListener listener) : listener_(listener) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    listener_(message.level >= spdlog::level::warn,
              std::string(message.payload.data(), message.payload.size()));
  }
  void flush_() override {}

  const LogListener listener_;
};

/// @throws Error kIo
spdlog::sink_ptr file_sink(const std::string& file, LogFormat format) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    if (format == LogFormat::kJson) {
      sink->set_formatter(std::make_unique<JsonFormatter>("\n", false));
    } else {
      sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z [%P] %l: %v");
    }
    return sink;
  } catch (const spdlog::spdlog_ex&) {
    throw io_error("open the log file", file, errno);
  }
}

}  // namespace

void LogSettings::apply() const {
  set_complaint_format(format);
  set_fault_listener([](LogEvent event, const std::string& cause, const std::string& text) {
    // The line comes inside its own LogScope.
    static FailureLog faults([](const std::string& line) { spdlog::warn("{}", line); });
    faults.add({.event = event, .cause = cause, .line = text});
  });
  switchable_sink()->set_sinks({file.empty() ? stderr_sink(format) : file_sink(file, format)});
  auto logger = std::make_shared<spdlog::logger>("reshardfs", switchable_sink());
  const std::string from_flags = quiet ? "error" : verbose ? "info" : "warning";
  logger->set_level(level_of(level.empty() ? from_flags : level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void LogSettings::leave_terminal() const {
  if (!file.empty()) return;
  switchable_sink()->set_sinks({system_log_sink(format)});
}

void LogSettings::reload() const noexcept {
  try {
    if (!file.empty()) switchable_sink()->set_sinks({file_sink(file, format)});
    if (log_level_source()) {
      spdlog::default_logger_raw()->set_level(level_of(log_level_source()()));
    }
    const auto name = spdlog::level::to_string_view(spdlog::default_logger_raw()->level());
    log_info(LogEvent::kLogReopened, "the log continues here, at level {}",
             fmt::string_view(name.data(), name.size()));
  } catch (const std::exception& error) {
    log_error(LogEvent::kLogNotReopened,
              "the log could not be reopened, and continues unchanged: {}", error.what());
  }
}

void set_log_listener(LogListener listener) {
  auto logger =
      std::make_shared<spdlog::logger>("reshardfs", std::make_shared<ListenerSink>(listener));
  logger->set_level(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void set_log_level_source(std::function<std::string()> source) {
  log_level_source() = std::move(source);
}

void set_complaint_format(LogFormat format) noexcept {
  complaint_format = format;
}

void complain(const std::string& message) {
  const bool json = complaint_format == LogFormat::kJson;
  const bool to_journal = error_output_is_journal();
  if (!json && !to_journal) {
    // Without memory, too.
    std::cerr << "reshardfs: " << message << std::endl;
    return;
  }
  std::optional<LogScope> scope;
  if (LogScope::current() == nullptr) scope.emplace(LogEvent::kCommandFailed);
  const std::vector<LogField> fields = log_fields(LogScope::current(), mount_name());
  const LogLine line{
      .time = std::chrono::system_clock::now(), .level = spdlog::level::err, .text = message};
  const std::string shown = json ? json_line(line, fields) : "reshardfs: " + message;
  if (to_journal && Journal().send(journal_entry(line.level, shown, fields))) return;
  std::cerr << priority_prefix(line.level) << shown << std::endl;
}

}  // namespace reshardfs
