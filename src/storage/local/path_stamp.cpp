// SPDX-License-Identifier: Apache-2.0
#include "storage/local/path_stamp.h"

#include <sys/stat.h>

#include <cerrno>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/file_times.h"
#include "base/sha256.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// No kind of checkpoint has more levels below a step; a link may lead to a directory above it.
constexpr int kMostLevels = 6;

void add(Sha256& sum, const std::string& text) {
  sum.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
}

std::vector<DirectoryEntry> entries_if_there(const fs::path& directory) {
  try {
    return list_directory(directory);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    return {};  // it has just gone
  }
}

void add_below(const fs::path& directory, int levels, Sha256& sum) {
  for (const DirectoryEntry& entry : entries_if_there(directory)) {
    const fs::path path = directory / entry.name;
    add(sum, entry.name);
    add(sum, path_stamp(path));
    if (entry.is_directory && levels > 1) add_below(path, levels - 1, sum);
  }
}

}  // namespace

std::string path_stamp(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return {};
    throw io_error("examine", path.string(), errno);
  }
  std::string stamp =
      fmt::format("{} {} {}", status.st_dev, status.st_ino, nanoseconds(status.st_mtim));
  // A writer may set the modification time back.
  if (!S_ISDIR(status.st_mode)) {
    stamp += fmt::format(" {} {}", status.st_size, nanoseconds(status.st_ctim));
  }
  return stamp;
}

std::string tree_stamp(const fs::path& path) {
  Sha256 sum;
  add(sum, path_stamp(path));
  if (path_kind(path) == PathKind::kDirectory) add_below(path, kMostLevels, sum);
  return sum.finish();
}

}  // namespace reshardfs
