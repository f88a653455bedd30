// SPDX-License-Identifier: Apache-2.0
#include "storage/local/linkless_tree.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/text/file_name.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

constexpr const char* kHint = "put the file or directory itself there, or go without that option";

int open_by_kernel(int directory, const std::filesystem::path& path, int flags) {
  open_how how{};
  how.flags = static_cast<unsigned>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  while (true) {
    const long fd = ::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof(how));
    if (fd >= 0 || errno != EINTR) return static_cast<int>(fd);
  }
}

/// @return none, with errno, if it is no directory: ELOOP for a link.
Descriptor enter(int directory, const std::filesystem::path& name) {
  // O_PATH with O_NOFOLLOW opens a link itself.
  Descriptor opened(::openat(directory, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  const auto found = opened ? opened.status() : std::nullopt;
  if (!found || S_ISDIR(found->st_mode)) return found ? std::move(opened) : Descriptor();
  errno = S_ISLNK(found->st_mode) ? ELOOP : ENOTDIR;
  return Descriptor();
}

/// Each directory is held open while the next name is looked up in it.
int open_step_by_step(int root, const std::filesystem::path& path, int flags) {
  Descriptor held;
  const auto here = [&] { return held ? held.get() : root; };
  for (auto name = path.begin(); name != path.end(); ++name) {
    if (*name == ".." || name->is_absolute()) {
      errno = EXDEV;
      return -1;
    }
    const bool last = std::next(name) == path.end();
    if (last && (flags & O_DIRECTORY) == 0) {
      return ::openat(here(), name->c_str(), flags | O_NOFOLLOW);
    }
    held = enter(here(), *name);
    if (!held) return -1;
  }
  return ::openat(here(), ".", flags);
}

int open_root(const std::filesystem::path& root) {
  const int fd = ::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) return fd;
  switch (errno) {
    case ENOENT:
      throw Error(ErrorKind::kMissing, "no such directory").in_file(root.string());
    case ENOTDIR:
      throw Error(ErrorKind::kBadInput, "is not a directory").in_file(root.string());
    default:
      throw io_error("open directory", root.string(), errno);
  }
}

}  // namespace

LinklessTreePtr linkless_tree_of(const std::filesystem::path& root,
                                 const std::filesystem::path& path) {
  if (root.empty() || is_url(root) || path_kind(root) != PathKind::kDirectory) return nullptr;
  auto tree = std::make_shared<const LinklessTree>(root);
  return tree->holds(path) ? tree : nullptr;
}

LinklessTree::LinklessTree(const std::filesystem::path& root)
    : root_path_(without_trailing_slash(root)), root_(open_root(root)) {}

bool LinklessTree::holds(const std::filesystem::path& path) const {
  const auto end = std::mismatch(root_path_.begin(), root_path_.end(), path.begin(), path.end());
  return end.first == root_path_.end();
}

/// "." for the root itself; as it is if it does not begin with the root.
std::filesystem::path LinklessTree::below_root(const std::filesystem::path& path) const {
  if (!holds(path)) return path;
  const auto length = std::distance(root_path_.begin(), root_path_.end());
  std::filesystem::path below;
  for (auto name = std::next(path.begin(), length); name != path.end(); ++name) {
    if (!name->empty()) below /= *name;
  }
  return below.empty() ? "." : below;
}

int LinklessTree::open(const std::filesystem::path& path, int flags) const {
  const std::filesystem::path below = below_root(path);
  const int fd = open_by_kernel(root_.get(), below, flags | O_CLOEXEC);
  // Sandboxes refuse calls that they do not know with the one or the other.
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;
  return open_step_by_step(root_.get(), below, flags | O_CLOEXEC);
}

bool LinklessTree::examine(const std::filesystem::path& path, struct stat& out) const {
  const std::filesystem::path below = below_root(path);
  const std::filesystem::path above = below.parent_path();
  if (above.empty()) {
    if (below == "..") errno = EXDEV;
    return below != ".." && ::fstatat(root_.get(), below.c_str(), &out, AT_SYMLINK_NOFOLLOW) == 0;
  }
  const Descriptor directory(open(root_path_ / above, O_PATH | O_DIRECTORY));
  return directory &&
         ::fstatat(directory.get(), below.filename().c_str(), &out, AT_SYMLINK_NOFOLLOW) == 0;
}

Error link_refused(const std::filesystem::path& link) {
  return Error(ErrorKind::kBadInput, "is a symbolic link, and --no-symlinks refuses those")
      .in_file(link.string())
      .hint(kHint);
}

Error linkless_error(const std::string& action, const std::filesystem::path& path,
                     int errno_value) {
  switch (errno_value) {
    case ELOOP:
      return Error(ErrorKind::kBadInput,
                   "is a symbolic link or lies behind one, and --no-symlinks refuses those")
          .in_file(path.string())
          .hint(kHint);
    case EXDEV:
      return Error(ErrorKind::kBadInput, "leads out of the source, and --no-symlinks refuses that")
          .in_file(path.string());
    case ENOENT:
    case ENOTDIR:
      return Error(ErrorKind::kMissing, "no such file").in_file(path.string());
    default:
      return io_error(action, path.string(), errno_value);
  }
}

}  // namespace reshardfs
