// SPDX-License-Identifier: Apache-2.0
#include "export/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "export/identity.h"
#include "export/target_directory.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30U;
constexpr const char* kFormatKey = "reshardfs_export";
constexpr int kFormat = 2;
/// It identified source files by path, size and modification time alone.
constexpr int kOldFormat = 1;

Json parse_line(std::string_view line) {
  return Json::parse(line, nullptr, /*allow_exceptions=*/false);
}

std::string text_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Refuses the export of another conversion.
[[noreturn]] void throw_other(const Json& header, const Json& identity) {
  const auto format = header.is_object() ? header.value<Json>(kFormatKey, Json()) : Json();
  if (format == kFormat) {
    const IdentityDifference difference =
        identity_difference(header.value<Json>("conversion", Json()), identity);
    throw Error(ErrorKind::kUsage,
                "the directory holds the export of another conversion (" + difference.what + ")")
        .hint(difference.hint);
  }
  if (format == kOldFormat) {
    throw Error(ErrorKind::kUsage,
                "an earlier version of reshardfs began this export and recorded too little about "
                "the source to resume it safely")
        .hint(
            "choose another directory, or use --force, which compares existing files with the "
            "source");
  }
  throw Error(ErrorKind::kUsage, "this is not an export manifest")
      .hint("choose another directory, or use --force, which replaces it");
}

/// A file of this directory's own, and of no other name: what is written to it is written to
/// nothing else.
Error no_manifest(const std::string& what) {
  return Error(ErrorKind::kUsage, "is in the way: " + what)
      .hint("remove it, or choose another directory");
}

void require_own_file(const struct stat& found) {
  if (S_ISLNK(found.st_mode)) throw no_manifest("it is a symbolic link");
  if (!S_ISREG(found.st_mode)) throw no_manifest("it is not a regular file");
  if (found.st_nlink > 1) throw no_manifest("the file is hard-linked under another name");
}

Descriptor open_manifest(const Folder& folder) {
  // To open a device may do something, so it is looked at before, and again when it is open.
  if (const auto found = folder.look_at(Manifest::kName)) require_own_file(*found);
  constexpr mode_t kMode = 0666;
  auto file = folder.open_file(Manifest::kName, O_RDWR | O_CREAT | O_APPEND, kMode);
  if (!file) throw io_error("open", "", errno);
  struct stat found {};
  if (::fstat(file->get(), &found) != 0) throw io_error("examine", "", errno);
  require_own_file(found);
  return std::move(*file);
}

/// Runs `work`, whose errors are about the manifest.
template <typename Work>
auto about(const std::filesystem::path& path, Work&& work) {
  try {
    return work();
  } catch (Error& error) {
    error.in_file(path);
    throw;
  }
}

std::optional<std::pair<std::string, Manifest::Entry>> parse_entry(std::string_view line) {
  const Json json = parse_line(line);
  if (!json.is_object() || !json.contains("path") || !json.contains("size") ||
      !json.contains("sha256")) {
    return std::nullopt;
  }
  const Json& path = json.at("path");
  const Json& size = json.at("size");
  const Json& sha256 = json.at("sha256");
  if (!path.is_string() || !size.is_number_unsigned() || !sha256.is_string()) return std::nullopt;
  if (!is_plain_path(path.get<std::string>())) return std::nullopt;
  return std::pair(path.get<std::string>(),
                   Manifest::Entry{size.get<std::uint64_t>(), sha256.get<std::string>()});
}

}  // namespace

Manifest::Manifest(const Folder& folder, const Json& identity, bool force)
    : path_(folder.path() / kName), file_(about(path_, [&] { return open_manifest(folder); })) {
  lock_for_export(file_.get(), folder.path());
  const std::uint64_t good = about(path_, [&] { return parse(read_all(), identity, force); });
  if (::ftruncate(file_.get(), static_cast<off_t>(good)) != 0) {
    throw io_error("write", path_, errno);
  }
  if (good > 0) return;
  append(text_line({{kFormatKey, kFormat}, {"conversion", identity}}));
}

std::string Manifest::read_all() const {
  struct stat found {};
  if (::fstat(file_.get(), &found) != 0) throw io_error("examine", path_, errno);
  if (static_cast<std::uint64_t>(found.st_size) > kMaxBytes) {
    throw no_manifest("it is larger than any that reshardfs writes");
  }
  std::string text(static_cast<std::size_t>(found.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got =
        ::pread(file_.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error("read", path_, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

std::uint64_t Manifest::parse(const std::string& text, const Json& identity, bool force) {
  std::uint64_t good = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', good)) {
    const std::string_view line = std::string_view(text).substr(good, end - good);
    if (good == 0) {
      const Json header = parse_line(line);
      const bool same = header.is_object() && header.value<Json>(kFormatKey, Json()) == kFormat &&
                        header.value<Json>("conversion", Json()) == identity;
      if (!same && force) return 0;
      if (!same) throw_other(header, identity);
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
  // As a rule one write, so that a kill does not tear it. What a full disk leaves over is tried
  // once more, to be told why.
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw io_error("write", path_, written < 0 ? errno : ENOSPC);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Manifest::sync() {
  if (::fsync(file_.get()) != 0) throw io_error("sync", path_, errno);
}

}  // namespace reshardfs
