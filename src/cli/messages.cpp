// SPDX-License-Identifier: Apache-2.0
#include "cli/messages.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

/// -1: nobody listens. What cannot be a descriptor of ours is none.
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

/// A listener that has gone must not stop the work.
void tell(const nlohmann::ordered_json& message) {
  const std::string line =
      message.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(listener(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
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
    nlohmann::ordered_json json{{"kind", name_of(error.kind())}};
    json["path"] = text_or_null(error.file());
    json["parameter"] = text_or_null(error.parameter());
    json["rank"] = error.rank() ? nlohmann::ordered_json(error.rank()->number()) : nullptr;
    json["hint"] = text_or_null(error.hint());
    json["message"] = error.message();
    json["text"] = error.what();
    tell({{"error", std::move(json)}});
  } catch (const std::exception&) {
    // Standard error has it.
  }
}

void tell_error(ErrorKind kind, const std::string& text) noexcept {
  if (!has_listener()) return;
  try {
    tell({{"error",
           {{"kind", name_of(kind)},
            {"path", nullptr},
            {"parameter", nullptr},
            {"rank", nullptr},
            {"hint", nullptr},
            {"message", text},
            {"text", text}}}});
  } catch (const std::exception&) {
    // Standard error has it.
  }
}

void tell_progress(const Progress::Values& values) noexcept {
  if (!has_listener()) return;
  try {
    tell({{"progress",
           {{"phase", values.phase},
            {"bytes", values.bytes},
            {"total_bytes", values.total_bytes},
            {"files", values.files},
            {"total_files", values.total_files},
            {"file", text_or_null(values.current)}}}});
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
