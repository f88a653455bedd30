// SPDX-License-Identifier: Apache-2.0
#include "export/target_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "storage/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(fs::absolute(path), error);
  if (error) throw io_error("look at", path, error.value());
  // Without the empty last component of "out/".
  return found.has_filename() ? found : found.parent_path();
}

void check_apart(const fs::path& directory, const fs::path& source) {
  const std::string hint = "choose a directory outside the source";
  if (is_inside(directory, source)) {
    throw Error(ErrorKind::kUsage, "the output directory lies inside the source " + source.native())
        .in_file(directory)
        .hint(hint);
  }
  if (is_inside(source, directory)) {
    throw Error(ErrorKind::kUsage,
                "the source " + source.native() + " lies inside the output directory")
        .in_file(directory)
        .hint(hint);
  }
}

}  // namespace

TargetDirectory::TargetDirectory(const fs::path& path, const fs::path& source)
    : path_(resolved(path)) {
  check_apart(path_, resolved(source));
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_directory(path_, error)) {
    throw Error(ErrorKind::kUsage, "is not a directory").in_file(path_);
  }
  fs::create_directories(path_, error);
  if (error) throw io_error("create the directory", path_, error.value());
  fd_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) throw io_error("open", path_, errno);
  // Where directories cannot be locked (NFS) the user has to see to it.
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd_);
    throw Error(ErrorKind::kUsage, "another export is writing here")
        .in_file(path_)
        .hint("wait for it, or choose another directory");
  }
}

TargetDirectory::~TargetDirectory() {
  ::close(fd_);
}

void TargetDirectory::require_space(std::uint64_t bytes) const {
  struct statvfs space {};
  if (::fstatvfs(fd_, &space) != 0) throw io_error("examine", path_, errno);
  // Some file systems do not tell.
  if (space.f_blocks == 0) return;
  const std::uint64_t available = std::uint64_t{space.f_bavail} * space.f_frsize;
  if (available >= bytes) return;
  throw Error(ErrorKind::kIo, fmt::format("not enough space: {} bytes are needed, {} are available",
                                          bytes, available))
      .in_file(path_)
      .os_error(ENOSPC)
      .hint("make room, or choose other --ranks or --views");
}

}  // namespace reshardfs
