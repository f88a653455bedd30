// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/free_names.h"

#include <unistd.h>

#include <system_error>

#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

std::string free_path(const fs::path& directory, const std::string& stem,
                      const std::string& extension) {
  for (int number = 1;; ++number) {
    const std::string counted = number == 1 ? std::string() : "-" + std::to_string(number);
    const fs::path path = directory / (stem + counted + extension);
    std::error_code failed;
    if (!fs::exists(fs::symlink_status(path, failed))) return path.string();
  }
}

bool can_write_beside(const fs::path& source) {
  std::error_code failed;
  const fs::path here = fs::current_path(failed);
  if (failed || ::access(here.c_str(), W_OK) != 0) return false;
  return is_url(source) || !is_inside(here, source);
}

}  // namespace

std::string free_name(const std::string& stem, const std::string& extension) {
  return free_path({}, stem, extension);
}

std::string free_mountpoint(const fs::path& source) {
  if (can_write_beside(source)) return free_path({}, "mnt", "");
  std::error_code failed;
  return free_path(fs::temp_directory_path(failed), "reshardfs-mnt", "");
}

std::string free_output(const fs::path& source, const std::string& extension) {
  // Of "a/.", the parent is not "a".
  const fs::path whole = (is_url(source) ? source : fs::absolute(source) / "").lexically_normal();
  const fs::path directory =
      can_write_beside(source) ? fs::path() : whole.parent_path().parent_path();
  return free_path(directory, "converted", extension);
}

}  // namespace reshardfs
