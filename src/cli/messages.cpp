// SPDX-License-Identifier: Apache-2.0
#include "cli/messages.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <string_view>

#include "base/json/json_writer.h"
#include "base/posix/read_write.h"
#include "base/text/numbers.h"

namespace reshardfs {
namespace {

/// -1 if nothing listens, or the variable has no descriptor of this process.
int listener() noexcept {
  static const int number = [] {
    const char* text = std::getenv("RESHARDFS_MESSAGES");
    if (text == nullptr) return -1;
    const int value = parse_number<int>(text).value_or(-1);
    if (value <= STDERR_FILENO) return -1;
    return ::fcntl(value, F_SETFD, FD_CLOEXEC) == 0 ? value : -1;
  }();
  return number;
}

/// {NAME: {members}}. A listener that has gone must not stop the work.
void tell(const char* name, const std::function<void(JsonWriter&)>& write_members) {
  JsonWriter json({.text = JsonText::kAsciiReplaced});
  json.open_object();
  json.open_object(name);
  write_members(json);
  json.close_object();
  json.close_object();
  static_cast<void>(write_all(listener(), json.take() + "\n"));
}

}  // namespace

bool has_listener() noexcept {
  return listener() >= 0;
}

int listener_descriptor() noexcept {
  return listener();
}

void tell_error(const Error& error) noexcept {
  if (!has_listener()) return;
  try {
    tell("error", [&](JsonWriter& json) {
      json.member("kind", name_of(error.kind()));
      json.member_or_null("path", error.file());
      json.member_or_null("parameter", error.parameter());
      json.member_or_null("rank", error.rank());
      json.member_or_null("hint", error.hint());
      json.member("message", error.message());
      json.member("text", error.what());
    });
  } catch (const std::exception&) {
    // Standard error has it.
  }
}

void tell_error(ErrorKind kind, const std::string& text) noexcept {
  if (!has_listener()) return;
  try {
    tell("error", [&](JsonWriter& json) {
      json.member("kind", name_of(kind));
      for (const char* unknown : {"path", "parameter", "rank", "hint"}) json.null_member(unknown);
      json.member("message", text);
      json.member("text", text);
    });
  } catch (const std::exception&) {
    // Standard error has it.
  }
}

void tell_progress(const Progress::Values& values) noexcept {
  if (!has_listener()) return;
  try {
    tell("progress", [&](JsonWriter& json) {
      json.member("phase", values.phase);
      json.member("bytes", values.bytes);
      json.member("total_bytes", values.total_bytes);
      json.member("files", values.files);
      json.member("total_files", values.total_files);
      json.member_or_null("file", values.current);
    });
  } catch (const std::exception&) {
    // The work goes on.
  }
}

const char* name_of(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kBadInput:
      return "bad input";
    case ErrorKind::kMissing:
      return "missing";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kChanged:
      return "changed";
    case ErrorKind::kInternal:
      break;
  }
  return "internal";
}

}  // namespace reshardfs
