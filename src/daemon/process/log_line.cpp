// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/log_line.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <type_traits>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <syslog.h>

#include "base/json/json_writer.h"

namespace reshardfs {
namespace {

class FieldList {
 public:
  void text(std::string_view name, std::string value) {
    if (!value.empty()) fields_.push_back({name, std::move(value)});
  }
  void number(std::string_view name, std::uint64_t value) {
    if (value != 0) fields_.push_back({name, static_cast<std::int64_t>(value)});
  }
  void time(std::string_view name, std::chrono::nanoseconds value) {
    fields_.push_back({name, value});
  }
  std::vector<LogField> take() { return std::move(fields_); }

 private:
  std::vector<LogField> fields_;
};

std::string seconds_text(std::chrono::nanoseconds time) {
  constexpr std::int64_t kMicrosecondsPerSecond = 1'000'000;
  const std::int64_t all = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return fmt::format("{}.{:06}", all / kMicrosecondsPerSecond, all % kMicrosecondsPerSecond);
}

std::string time_text(std::chrono::system_clock::time_point time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(time - seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), rest.count());
}

/// NAME=VALUE, or where the value may have line feeds NAME, its length in 8 bytes, little-endian,
/// and the value.
void add_journal_field(std::string& entry, std::string_view name, std::string_view value) {
  entry += name;
  if (value.find('\n') == std::string_view::npos) {
    entry += '=';
  } else {
    entry += '\n';
    constexpr unsigned kLengthBytes = 8;
    for (unsigned i = 0; i < kLengthBytes; ++i) {
      entry += static_cast<char>(std::uint64_t{value.size()} >> (8 * i) & 0xff);
    }
  }
  entry += value;
  entry += '\n';
}

std::string journal_name(std::string_view name) {
  std::string out = "RESHARDFS_";
  for (const char c : name) {
    out += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string value_text(const LogField& field) {
  return std::visit(
      [](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          return value;
        } else if constexpr (std::is_same_v<Value, std::int64_t>) {
          return std::to_string(value);
        } else {
          return seconds_text(value);
        }
      },
      field.value);
}

}  // namespace

std::vector<LogField> log_fields(const LogScope* scope, const MountName& mount) {
  FieldList list;
  list.text("event", std::string(name_of(scope == nullptr ? LogEvent::kMessage : scope->event())));
  list.text("mount", mount.place);
  list.text("source", mount.source);
  if (scope == nullptr) return list.take();
  const LogFields& fields = scope->fields();
  list.text("operation", std::string(fields.operation));
  list.text("file", fields.file);
  list.text("source_file", fields.source_file);
  list.text("parameter", fields.parameter);
  if (fields.error != 0) {
    list.number("errno", static_cast<std::uint64_t>(fields.error));
    list.text("errno_name", errno_name(fields.error));
  }
  list.number("client_pid", static_cast<std::uint64_t>(fields.client_pid));
  list.text("client_cgroup", fields.client_cgroup);
  if (fields.duration) list.time("duration_seconds", *fields.duration);
  list.number("repeated", fields.repeated);
  return list.take();
}

std::string json_line(const LogLine& line, const std::vector<LogField>& fields) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member("time", time_text(line.time));
  const auto level = spdlog::level::to_string_view(line.level);
  json.member("level", std::string_view(level.data(), level.size()));
  for (const LogField& field : fields) {
    if (const auto* const text = std::get_if<std::string>(&field.value)) {
      json.member(field.name, *text);
    } else {
      json.written_member(field.name, value_text(field));
    }
  }
  json.member("pid", ::getpid());
  json.member("message", line.text);
  json.close_object();
  return json.take();
}

std::string journal_entry(spdlog::level::level_enum level, std::string_view message,
                          const std::vector<LogField>& fields) {
  std::string entry;
  add_journal_field(entry, "MESSAGE", message);
  add_journal_field(entry, "PRIORITY", std::to_string(priority_of(level)));
  add_journal_field(entry, "SYSLOG_IDENTIFIER", "reshardfs");
  for (const LogField& field : fields) {
    const std::string value = value_text(field);
    // The journal's own name for it, by which journalctl explains it.
    if (field.name == "errno") add_journal_field(entry, "ERRNO", value);
    add_journal_field(entry, journal_name(field.name), value);
  }
  return entry;
}

int priority_of(spdlog::level::level_enum level) noexcept {
  switch (level) {
    case spdlog::level::critical:
    case spdlog::level::err:
      return LOG_ERR;
    case spdlog::level::warn:
      return LOG_WARNING;
    case spdlog::level::info:
      return LOG_INFO;
    default:
      return LOG_DEBUG;
  }
}

}  // namespace reshardfs
