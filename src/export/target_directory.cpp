// SPDX-License-Identifier: Apache-2.0
#include "export/target_directory.h"

#include <sys/file.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/file_name.h"
#include "base/text/url_path.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(fs::absolute(path), error);
  if (error) throw io_error("look at", path, error.value());
  return without_trailing_slash(found);
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

/// @return the directory, which is there then.
Folder open_target(const fs::path& path, const fs::path& source) {
  const fs::path directory = resolved(path);
  if (!is_url(source)) check_apart(directory, resolved(source));
  std::error_code error;
  if (fs::exists(directory, error) && !fs::is_directory(directory, error)) {
    throw Error(ErrorKind::kUsage, "is not a directory").in_file(directory);
  }
  fs::create_directories(directory, error);
  if (error) throw io_error("create the directory", directory, error.value());
  return Folder::open(directory);
}

}  // namespace

bool try_lock(int descriptor, Lock lock) noexcept {
  const int operation = lock == Lock::kShared ? LOCK_SH : LOCK_EX;
  return ::flock(descriptor, operation | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

Error in_use_error(const fs::path& directory) {
  return Error(ErrorKind::kUsage, "another export is writing here")
      .in_file(directory)
      .hint("wait for it, or choose another directory");
}

TargetDirectory::TargetDirectory(const fs::path& path, const fs::path& source, Lock lock)
    : folder_(open_target(path, source)) {
  if (!try_lock(folder_.descriptor(), lock)) throw in_use_error(folder_.path());
}

void TargetDirectory::require_space(std::uint64_t bytes) const {
  struct statvfs space {};
  if (::fstatvfs(folder_.descriptor(), &space) != 0) {
    throw io_error("examine", folder_.path(), errno);
  };
  // Some file systems do not tell.
  if (space.f_blocks == 0) return;
  const std::uint64_t available = std::uint64_t{space.f_bavail} * space.f_frsize;
  if (available >= bytes) return;
  throw Error(ErrorKind::kIo, fmt::format("not enough space: {} bytes are needed, {} are available",
                                          bytes, available))
      .in_file(folder_.path())
      .os_error(ENOSPC)
      .hint("make room, or choose other --ranks or --views");
}

}  // namespace reshardfs
