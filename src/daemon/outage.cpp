// SPDX-License-Identifier: Apache-2.0
#include "daemon/outage.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "daemon/keeping/service_manager.h"
#include "fuse/event_log.h"
#include "storage/byte_source.h"
#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kShortestPause{100};
constexpr milliseconds kLongestPause{2000};
/// For how long a source that answers may be other than whole.
constexpr std::chrono::seconds kTimeToBeWhole{20};
/// A service manager that reads slowly must not be sent more than its socket holds.
constexpr std::chrono::seconds kNoticeEvery{10};
/// The time for each attempt.
constexpr std::chrono::microseconds kTimeForOne{std::chrono::minutes(1)};

bool tells_of_outage(const Error& error) {
  if (error.kind() != ErrorKind::kIo) return false;
  switch (error.os_error()) {
    case 0:  // a server
    case EIO:
    case ESTALE:
    case ETIMEDOUT:
    case ENOTCONN:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ESHUTDOWN:
    case EPIPE:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case EREMOTEIO:
    case ENODEV:
    case ENXIO:
      return true;
    default:
      return false;
  }
}

/// Reads a byte of each of some files.
void read_some(const fs::path& path, int levels, int& most) {
  for (const DirectoryEntry& entry : list_directory(path)) {
    if (most == 0) return;
    if (entry.is_directory && levels > 1) read_some(path / entry.name, levels - 1, most);
    if (!entry.is_regular) continue;
    --most;
    const ByteSourcePtr file = open_file(path / entry.name);
    std::array<std::byte, 1> byte{};
    if (file->size() > 0) file->read_at(0, byte);
  }
}

/// How a source fails that does not answer; nothing: it answers.
std::optional<Error> outage_of(const fs::path& source) {
  constexpr int kMostFiles = 64;
  try {
    int most = kMostFiles;
    if (path_kind(source) == PathKind::kDirectory && !is_url(source)) read_some(source, 3, most);
  } catch (const Error& error) {
    if (tells_of_outage(error)) return error;
  }
  return std::nullopt;
}

/// Whether the source, or another file that the mount was made of, is not as it was: it may be
/// being copied, saved or renamed just now.
bool is_of_inputs(const Error& error, const fs::path& source) {
  const bool is_of_content = error.kind() == ErrorKind::kMissing ||
                             error.kind() == ErrorKind::kBadInput ||
                             error.kind() == ErrorKind::kChanged;
  return (is_of_content && !error.file().empty()) || is_of_source(error, source);
}

}  // namespace

bool is_of_source(const Error& error, const fs::path& source) {
  switch (error.kind()) {
    case ErrorKind::kUsage:
    case ErrorKind::kInternal:
      return false;
    case ErrorKind::kUnsupported:
      break;
    default:
      if (error.file().empty()) return true;
  }
  return !error.file().empty() && (is_inside_by_name(error.file(), source) ||
                                   (!is_url(source) && is_inside(error.file(), source)));
}

int outlast_outage(const fs::path& source, const std::function<int()>& attempt,
                   const std::function<bool()>& may_go_on) {
  milliseconds pause = kShortestPause;
  std::string told;
  std::optional<Clock::time_point> answered_at;
  Clock::time_point next_notice = Clock::now();
  for (;;) {
    try {
      return attempt();
    } catch (const Error& error) {
      const std::optional<Error> outage =
          tells_of_outage(error) ? std::optional(error) : outage_of(source);
      const bool has_answered = answered_at.has_value();
      if (outage) answered_at.reset();
      if (!outage && !answered_at) answered_at = Clock::now();
      const bool may_be_whole_soon =
          !outage && is_of_inputs(error, source) && Clock::now() - *answered_at < kTimeToBeWhole;
      if ((!outage && !may_be_whole_soon && has_answered) || !may_go_on()) throw;
      const std::string why = outage ? outage->what() : may_be_whole_soon ? error.what() : "";
      if (!why.empty() && why != told) {
        told = why;
        log_warning(LogEvent::kSourceAwaited, "{}; the mount waits for its source", told);
      }
    }
    if (Clock::now() >= next_notice) {
      next_notice = Clock::now() + kNoticeEvery;
      notify_service_manager(fmt::format("STATUS=waiting for the source\nEXTEND_TIMEOUT_USEC={}",
                                         kTimeForOne.count()));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace reshardfs
