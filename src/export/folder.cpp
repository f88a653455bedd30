// SPDX-License-Identifier: Apache-2.0
#include "export/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/posix/directory_stream.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

/// Why one of the names is no directory.
Error no_directory(int parent, const std::string& name, const fs::path& path) {
  struct stat found {};
  const bool is_link =
      ::fstatat(parent, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode);
  return Error(ErrorKind::kUsage, is_link ? "a symbolic link is in the place of a directory"
                                          : "a file is in the place of a directory")
      .in_file(path)
      .hint(is_link ? "remove the link, or choose another directory" : "choose another directory");
}

}  // namespace

bool is_plain_path(const fs::path& path) {
  return path.is_relative() && !path.empty() &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) {
           return part.empty() || part == "." || part == "..";
         });
}

Folder Folder::open(const fs::path& path) {
  const int fd = ::open(path.c_str(), kDirectoryFlags);
  if (fd >= 0) return {Descriptor(fd), path};
  if (errno == ENOTDIR) throw Error(ErrorKind::kUsage, "is not a directory").in_file(path);
  if (errno == ENOENT) {
    throw Error(ErrorKind::kMissing, "no such directory").in_file(path);
  }
  throw io_error("open", path, errno);
}

std::optional<Folder> Folder::walk(const fs::path& below, bool make) const {
  // Each is somebody's at once: a path that cannot be copied would leave it open.
  Descriptor own(::openat(descriptor(), ".", kDirectoryFlags));
  if (own.get() < 0) throw io_error("open", path_, errno);
  std::optional<Folder> folder(Folder(std::move(own), path_));
  // Name by name: O_NOFOLLOW is about the last one alone.
  for (const fs::path& name : below) {
    const fs::path path = folder->path_ / name;
    constexpr mode_t kMode = 0777;  // the umask takes from it
    if (make && ::mkdirat(folder->descriptor(), name.c_str(), kMode) != 0 && errno != EEXIST) {
      throw io_error("create the directory", path, errno);
    }
    Descriptor next(::openat(folder->descriptor(), name.c_str(), kDirectoryFlags | O_NOFOLLOW));
    if (next.get() < 0 && errno == ENOENT) return std::nullopt;
    if (next.get() < 0 && (errno == ENOTDIR || errno == ELOOP)) {
      throw no_directory(folder->descriptor(), name, path);
    }
    if (next.get() < 0) throw io_error("open", path, errno);
    folder.emplace(Folder(std::move(next), path));
  }
  return folder;
}

std::optional<Folder> Folder::find(const fs::path& below) const {
  return walk(below, /*make=*/false);
}

Folder Folder::make(const fs::path& below) const {
  auto folder = walk(below, /*make=*/true);
  if (folder) return std::move(*folder);
  throw io_error("open", path_ / below, ENOENT);  // somebody has removed it at once
}

std::optional<struct stat> Folder::look_at(const std::string& name) const {
  struct stat found {};
  if (::fstatat(descriptor(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) return found;
  if (errno == ENOENT) return std::nullopt;
  throw io_error("examine", path_ / name, errno);
}

std::vector<std::string> Folder::names() const {
  // Opened anew: a directory on NFS is asked for again then, and another reader's place is its own.
  DirectoryStream stream(Descriptor(::openat(descriptor(), ".", kDirectoryFlags)));
  if (!stream) throw io_error("open", path_, errno);
  std::vector<std::string> names;
  while (const dirent* const entry = stream.next()) names.emplace_back(entry->d_name);
  if (errno != 0) throw io_error("read", path_, errno);
  std::sort(names.begin(), names.end());
  return names;
}

void Folder::sync() const {
  // Some file systems cannot sync directories.
  if (::fsync(descriptor()) != 0 && errno != EINVAL) throw io_error("sync", path_, errno);
}

void require_lock(const Descriptor& opened, LockMode mode, const fs::path& directory) {
  const bool is_locked = opened && try_lock(opened.get(), mode) == LockState::kHeldElsewhere;
  if (is_locked) throw in_use_error(directory);
}

Error in_use_error(const fs::path& directory) {
  return Error(ErrorKind::kUsage, "another export is writing here")
      .in_file(directory)
      .hint("wait for it, or choose another directory");
}

}  // namespace reshardfs
