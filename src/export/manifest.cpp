// SPDX-License-Identifier: Apache-2.0
#include "export/manifest.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "storage/directory.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30U;
constexpr const char* kFormatKey = "reshardfs_export";
constexpr int kFormat = 1;

Json parse(std::string_view line) {
  return Json::parse(line, nullptr, /*allow_exceptions=*/false);
}

std::string text_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// The first key whose values differ.
std::string difference(const Json& old, const Json& now) {
  for (const auto& [key, value] : now.items()) {
    if (!old.contains(key) || old.at(key) != value) return key;
  }
  return "more than is known";
}

std::optional<std::pair<std::string, Manifest::Entry>> parse_entry(std::string_view line) {
  const Json json = parse(line);
  if (!json.is_object() || !json.contains("path") || !json.contains("size") ||
      !json.contains("sha256")) {
    return std::nullopt;
  }
  const Json& path = json.at("path");
  const Json& size = json.at("size");
  const Json& sha256 = json.at("sha256");
  if (!path.is_string() || !size.is_number_unsigned() || !sha256.is_string()) return std::nullopt;
  return std::pair(path.get<std::string>(),
                   Manifest::Entry{size.get<std::uint64_t>(), sha256.get<std::string>()});
}

}  // namespace

Manifest::Manifest(const std::filesystem::path& directory, const Json& identity, bool force)
    : path_(directory / kName) {
  const std::uint64_t good = read(identity, force);
  constexpr mode_t kMode = 0666;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (fd_ < 0) throw io_error("open", path_, errno);
  if (::ftruncate(fd_, static_cast<off_t>(good)) != 0) {
    const int failed = errno;
    ::close(fd_);
    throw io_error("write", path_, failed);
  }
  if (good > 0) return;
  try {
    append(text_line({{kFormatKey, kFormat}, {"conversion", identity}}));
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

Manifest::~Manifest() {
  ::close(fd_);
}

std::uint64_t Manifest::read(const Json& identity, bool force) {
  if (path_kind(path_) == PathKind::kMissing) return 0;
  const std::string text = read_small_file(path_, kMaxBytes);
  std::uint64_t good = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', good)) {
    const std::string_view line = std::string_view(text).substr(good, end - good);
    if (good == 0) {
      const Json header = parse(line);
      const bool known = header.is_object() && header.contains("conversion") &&
                         header.contains(kFormatKey) && header.at(kFormatKey) == kFormat;
      if (!known || header.at("conversion") != identity) {
        if (force) return 0;
        const std::string what = known ? difference(header.at("conversion"), identity) : "unknown";
        throw Error(ErrorKind::kUsage,
                    "the directory holds the export of another conversion (different: " +
                        printable(what) + ")")
            .in_file(path_)
            .hint("choose another directory, or say --force");
      }
    } else {
      auto entry = parse_entry(line);
      if (!entry) break;
      entries_[std::move(entry->first)] = std::move(entry->second);
    }
    good = end + 1;
  }
  return good;
}

std::optional<Manifest::Entry> Manifest::find(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

void Manifest::add(const std::string& path, const Entry& entry) {
  const std::lock_guard lock(mutex_);
  append(text_line({{"path", path}, {"size", entry.size}, {"sha256", entry.sha256}}));
  entries_[path] = entry;
}

void Manifest::append(const std::string& line) {
  // One write, so that a kill does not tear it.
  ssize_t written = 0;
  do {
    written = ::write(fd_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) throw io_error("write", path_, errno);
  if (static_cast<std::size_t>(written) != line.size()) throw io_error("write", path_, ENOSPC);
}

void Manifest::sync() {
  if (::fsync(fd_) != 0) throw io_error("sync", path_, errno);
}

}  // namespace reshardfs
