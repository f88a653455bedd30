// SPDX-License-Identifier: Apache-2.0
#include "export/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "export/manifest_text.h"
#include "export/partial_file.h"
#include "export/target_directory.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30U;
constexpr const char* kSharePrefix = ".reshardfs-export.";
constexpr const char* kShareOf = "-of-";
constexpr const char* kShareSuffix = ".jsonl";
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

/// @return nothing, with errno, if it cannot be opened.
std::optional<Descriptor> open_own_file(const Folder& folder, const std::string& name, int flags) {
  // To open a device may do something, so it is looked at before, and again when it is open.
  if (const auto found = folder.look_at(name)) require_own_file(*found);
  constexpr mode_t kMode = 0666;
  auto file = folder.open_file(name, flags, kMode);
  if (!file) return std::nullopt;
  struct stat found {};
  if (::fstat(file->get(), &found) != 0) throw io_error("examine", "", errno);
  require_own_file(found);
  return file;
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

/// @return less than that if the file ends before.
std::string read_range(int file, std::uint64_t offset, std::uint64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got =
        ::pread(file, text.data() + done, text.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error("read", "", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

std::uint64_t size_of(int file) {
  struct stat found {};
  if (::fstat(file, &found) != 0) throw io_error("examine", "", errno);
  return static_cast<std::uint64_t>(found.st_size);
}

std::string read_manifest(int file) {
  const std::uint64_t bytes = size_of(file);
  if (bytes > kMaxBytes) throw no_manifest("it is larger than any that reshardfs writes");
  return read_range(file, 0, bytes);
}

std::optional<Manifest::Entries> read_one(const Folder& folder, const std::string& name,
                                          const Json& identity, const IsSameHeader& is_same) {
  return about(folder.path() / name, [&]() -> std::optional<Manifest::Entries> {
    const auto file = open_own_file(folder, name, O_RDONLY);
    if (!file && errno == ENOENT) return std::nullopt;
    if (!file) throw io_error("open", "", errno);
    Manifest::Entries entries;
    if (parse_manifest(read_manifest(file->get()), is_same, identity, /*force=*/false, entries) ==
        0) {
      return std::nullopt;
    }
    return entries;
  });
}

}  // namespace

Manifest::Manifest(const Folder& folder, const Json& identity, bool force,
                   const std::optional<SharePlan>& share)
    : name_(share ? manifest_name(share->share) : kName),
      path_(folder.path() / name_),
      header_(manifest_header(identity, share)),
      share_(share) {
  about(path_, [&] {
    open_and_lock(folder);
    const std::string text = read_manifest(file_->get());
    const std::uint64_t good = parse_manifest(
        text, [&](const Json& header) { return header == header_; }, identity, force, entries_);
    // Not where it changes nothing but the file's times.
    if (good < text.size() && ::ftruncate(file_->get(), static_cast<off_t>(good)) != 0) {
      throw io_error("write", "", errno);
    }
    if (good > 0) return;
    append(manifest_line(header_));
    // For other nodes to see.
    if (share_) sync();
  });
}

void Manifest::require_own(const Folder& folder) const {
  const std::string header = manifest_line(header_);
  const auto found = about(path_, [&]() -> std::string {
    // Opened anew: what other nodes have written is seen then.
    const auto file = open_own_file(folder, name_, O_RDONLY);
    return file ? read_range(file->get(), 0, header.size()) : "";
  });
  if (found == header) return;
  throw Error(ErrorKind::kUsage, "another export has begun in the place of this one")
      .in_file(path_)
      .hint("let only one of them run");
}

void Manifest::open_and_lock(const Folder& folder) {
  // Who completes a share replaces its manifest: what was opened may be the old one when it is
  // locked at last.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    auto file = open_own_file(folder, name_, O_RDWR | O_CREAT | O_APPEND);
    if (!file) throw io_error("open", "", errno);
    file_.emplace(std::move(*file));
    if (!try_lock(file_->get(), Lock::kExclusive)) {
      if (!share_) throw in_use_error(folder.path());
      throw Error(ErrorKind::kUsage, "another process is writing share " + to_string(share_->share))
          .hint("wait until it ends, or end it, and run this share again");
    }
    struct stat mine {};
    if (::fstat(file_->get(), &mine) != 0) throw io_error("examine", "", errno);
    const auto there = folder.look_at(name_);
    if (there && there->st_dev == mine.st_dev && there->st_ino == mine.st_ino) return;
  }
  throw no_manifest("it is replaced again and again");
}

std::optional<Manifest::Entry> Manifest::find(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

void Manifest::add(const std::string& path, const Entry& entry) {
  const std::lock_guard lock(mutex_);
  append(manifest_entry_line(path, entry));
  entries_[path] = entry;
}

void Manifest::append(const std::string& line) {
  // As a rule one write, so that a kill does not tear it. What a full disk leaves over is tried
  // once more, to be told why.
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(file_->get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw io_error("write", path_, written < 0 ? errno : ENOSPC);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Manifest::sync() {
  if (::fsync(file_->get()) != 0) throw io_error("sync", path_, errno);
}

void Manifest::complete(const Folder& folder, const std::vector<std::string>& paths) {
  require_own(folder);
  const std::lock_guard lock(mutex_);
  std::string text = manifest_line(header_);
  for (const std::string& path : std::set<std::string>(paths.begin(), paths.end())) {
    text += manifest_entry_line(path, entries_.at(path));
  }
  text += manifest_last_line(header_);
  if (about(path_, [&] { return read_manifest(file_->get()); }) == text) return;
  publish_text(folder, name_, text);
}

std::string manifest_name(const Share& share) {
  return fmt::format("{}{}{}{}{}", kSharePrefix, share.index, kShareOf, share.count, kShareSuffix);
}

std::optional<Share> share_of_manifest(const std::string& name) {
  if (!name.starts_with(kSharePrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto number = [end](const char* begin, std::string_view after, std::uint64_t& out) {
    const char* const rest = std::from_chars(begin, end, out).ptr;
    return std::string_view(rest, static_cast<std::size_t>(end - rest)).starts_with(after)
               ? rest + after.size()
               : end;
  };
  Share share;
  const char* const count =
      number(name.data() + std::string_view(kSharePrefix).size(), kShareOf, share.index);
  number(count, kShareSuffix, share.count);
  // What is written in another way is not ours.
  if (manifest_name(share) != name) return std::nullopt;
  return share;
}

std::optional<Manifest::Entries> read_manifest(const Folder& folder, const Json& identity,
                                               const std::optional<SharePlan>& share) {
  const Json wanted = manifest_header(identity, share);
  return read_one(folder, share ? manifest_name(share->share) : Manifest::kName, identity,
                  [&](const Json& header) { return header == wanted; });
}

std::optional<Manifest::Entries> read_share_of_any_files(const Folder& folder, const Json& identity,
                                                         const Share& share) {
  return read_one(folder, manifest_name(share), identity, same_conversion(identity));
}

std::optional<Manifest::Entries> read_complete_share(const Folder& folder, const Json& identity,
                                                     const SharePlan& share) {
  const std::string name = manifest_name(share.share);
  return about(folder.path() / name, [&]() -> std::optional<Manifest::Entries> {
    const auto file = open_own_file(folder, name, O_RDONLY);
    if (!file && errno == ENOENT) return std::nullopt;
    if (!file) throw io_error("open", "", errno);
    const Json header = manifest_header(identity, share);
    const std::string last = manifest_last_line(header);
    const std::uint64_t bytes = size_of(file->get());
    if (bytes < last.size()) return std::nullopt;
    if (read_range(file->get(), bytes - last.size(), last.size()) != last) return std::nullopt;
    Manifest::Entries entries;
    const std::string text = read_manifest(file->get());
    const std::uint64_t good = parse_manifest(
        text, [&](const Json& found) { return found == header; }, identity, true, entries);
    // A damaged line, or one that another process has added meanwhile.
    if (good != text.size() || !text.ends_with(last)) return std::nullopt;
    return entries;
  });
}

}  // namespace reshardfs
