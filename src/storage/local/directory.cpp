// SPDX-License-Identifier: Apache-2.0
#include "storage/local/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <list>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/posix/directory_stream.h"
#include "base/posix/file_times.h"
#include "storage/backend.h"
#include "storage/byte_source.h"
#include "storage/inputs.h"
#include "storage/local/linkless_tree.h"
#include "storage/local/own_mount.h"
#include "storage/location.h"
#include "storage/small_file.h"

namespace reshardfs {
namespace {

DirectoryStream open_below(const LinklessTree& tree, const std::filesystem::path& path) {
  DirectoryStream stream(Descriptor(tree.open(path, O_RDONLY | O_DIRECTORY)));
  if (!stream) throw linkless_error("open directory", path, errno);
  return stream;
}

DirectoryStream open_directory(const std::filesystem::path& path) {
  DirectoryStream stream(
      Descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_DIRECTORY | O_CLOEXEC)));
  if (stream) return stream;
  switch (errno) {
    case ENOENT:
      throw Error(ErrorKind::kMissing, "no such directory").in_file(path.string());
    case ENOTDIR:
      throw Error(ErrorKind::kBadInput, "is not a directory").in_file(path.string());
    default:
      throw io_error("open directory", path.string(), errno);
  }
}

}  // namespace

DirectoryEntry entry_of(int directory, const dirent& found) {
  DirectoryEntry entry{found.d_name, found.d_type == DT_DIR, found.d_type == DT_REG,
                       found.d_type == DT_LNK};
  if (found.d_type == DT_LNK || found.d_type == DT_UNKNOWN) {
    struct stat status {};
    if (leads_into_own_mount(directory, found.d_name)) return entry;
    // A link that leads nowhere stays neither: whoever needs the entry gets the error on opening.
    if (::fstatat(directory, found.d_name, &status, 0) == 0) {
      entry.is_directory = S_ISDIR(status.st_mode);
      entry.is_regular = S_ISREG(status.st_mode);
    }
    if (found.d_type == DT_UNKNOWN) {
      entry.is_link = ::fstatat(directory, found.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                      S_ISLNK(status.st_mode);
    }
  }
  return entry;
}

namespace {

/// Sorted by name.
std::vector<DirectoryEntry> entries_of(DirectoryStream stream, const std::filesystem::path& path) {
  std::vector<DirectoryEntry> entries;
  while (const dirent* found = stream.next()) {
    entries.push_back(entry_of(stream.descriptor(), *found));
  }
  if (errno != 0) throw io_error("list directory", path.string(), errno);
  std::sort(entries.begin(), entries.end(),
            [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
  return entries;
}

}  // namespace

std::filesystem::path real_path(const std::filesystem::path& path) {
  std::error_code failed;
  std::filesystem::path real = std::filesystem::absolute(path, failed);
  while (!failed) {  // more links than the kernel follows are an error
    real = std::filesystem::weakly_canonical(real, failed);
    // What a link leads to need not exist.
    std::error_code is_none;
    const auto target = std::filesystem::read_symlink(real, is_none);
    if (!failed && is_none) return real;
    real = real.parent_path() / target;
  }
  return path;
}

std::optional<FollowedPath> follow_links(const std::filesystem::path& path,
                                         const std::filesystem::path& stop) {
  std::error_code failed;
  const auto whole = std::filesystem::absolute(path, failed);  // nothing of nothing
  std::list<std::filesystem::path> names(whole.begin(), whole.end());
  constexpr int kMostLinks = 40;  // those that the kernel follows in one path
  FollowedPath found{"/", {}};
  for (int links = 0; !names.empty() && found.place != stop;) {
    const std::filesystem::path name = names.front();
    names.pop_front();
    if (name == "..") found.place = found.place.parent_path();
    if (name.empty() || name == "." || name == "..") continue;
    const std::filesystem::path next = found.place / name;  // "/" of a link's target begins anew
    std::error_code is_none;
    const auto target =
        next == stop ? std::filesystem::path() : std::filesystem::read_symlink(next, is_none);
    if (target.empty()) {
      found.place = next;
    } else if (++links > kMostLinks) {
      return std::nullopt;
    } else {
      names.insert(names.begin(), target.begin(), target.end());
    }
  }
  for (const std::filesystem::path& name : names) found.rest /= name;
  return found;
}

bool is_inside_by_name(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

bool is_inside(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  if (is_inside_by_name(inner, outer)) return true;
  struct stat target {};
  if (::stat(outer.c_str(), &target) != 0) return false;
  for (std::filesystem::path path = inner;; path = path.parent_path()) {
    struct stat stat {};
    if (::stat(path.c_str(), &stat) == 0 && stat.st_dev == target.st_dev &&
        stat.st_ino == target.st_ino) {
      return true;
    }
    if (path == path.parent_path()) return false;
  }
}

PathKind path_kind(const std::filesystem::path& path) {
  if (is_url(path)) return backend_of(path).kind(path);
  if (leads_into_own_mount(path)) return PathKind::kMissing;
  struct stat status {};
  const bool found = ::stat(path.c_str(), &status) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) {
    throw io_error("examine", path.string(), errno);
  }
  return !found                    ? PathKind::kMissing
         : S_ISDIR(status.st_mode) ? PathKind::kDirectory
                                   : PathKind::kOther;
}

PathKind path_kind(const std::filesystem::path& path, const SourceTreePtr& tree) {
  return tree ? tree->kind(path) : path_kind(path);
}

PathKind LinklessTree::kind(const std::filesystem::path& path) const {
  struct stat status {};
  if (examine(path, status)) {
    if (S_ISLNK(status.st_mode)) throw link_refused(path);
    return S_ISDIR(status.st_mode) ? PathKind::kDirectory : PathKind::kOther;
  }
  if (errno == ENOENT || errno == ENOTDIR) return PathKind::kMissing;
  throw linkless_error("examine", path, errno);
}

std::int64_t known_mtime_ns(const std::filesystem::path& path, const SourceTreePtr& tree) noexcept {
  try {
    if (tree) return tree->known_mtime_ns(path);
    struct stat status {};
    if (is_url(path) || ::stat(path.c_str(), &status) != 0) return 0;
    return nanoseconds(status.st_mtim);
  } catch (const std::exception&) {
    return 0;  // no memory
  }
}

std::int64_t LinklessTree::known_mtime_ns(const std::filesystem::path& path) const {
  struct stat status {};
  return examine(path, status) ? nanoseconds(status.st_mtim) : 0;
}

bool is_link(const std::filesystem::path& path) {
  if (is_url(path)) return false;
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return S_ISLNK(status.st_mode);
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw io_error("examine", path.string(), errno);
}

std::vector<DirectoryEntry> list_directory(const std::filesystem::path& path) {
  if (is_url(path)) return backend_of(path).list(path);
  return entries_of(open_directory(path), path);
}

std::vector<DirectoryEntry> list_directory(const std::filesystem::path& path,
                                           const SourceTreePtr& tree) {
  return tree ? tree->list(path) : list_directory(path);
}

std::vector<DirectoryEntry> LinklessTree::list(const std::filesystem::path& path) const {
  return entries_of(open_below(*this, path), path);
}

std::string read_small_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  return read_small_file(path, max_bytes, nullptr);
}

std::string read_small_file(const std::filesystem::path& path, std::uint64_t max_bytes,
                            const SourceTreePtr& tree) {
  return open_small_file(path, max_bytes, tree).content;
}

SmallFile open_small_file(const std::filesystem::path& path, std::uint64_t max_bytes,
                          const SourceTreePtr& tree) {
  const ByteSourcePtr source = open_file(path, tree);
  if (source->size() > max_bytes) {
    throw Error(ErrorKind::kBadInput, "has " + std::to_string(source->size()) + " bytes; at most " +
                                          std::to_string(max_bytes) + " are read")
        .in_file(source->name());
  }
  std::string content(source->size(), '\0');
  source->read_at(0, std::as_writable_bytes(std::span(content)));
  source->check_unchanged();
  if (const InputsPtr inputs = inputs_of(tree)) inputs->add_read(path, *source, content);
  return {std::move(content), source->mtime_ns()};
}

}  // namespace reshardfs
