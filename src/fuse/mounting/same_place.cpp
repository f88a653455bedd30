// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/same_place.h"

#include <system_error>

#include "fuse/mounting/fuse_descriptor.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// The kernel follows as many.
constexpr int kMostLinks = 40;

/// "/mnt/a/" and "/mnt/a" are one place.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() || !path.has_relative_path() ? path : path.parent_path();
}

}  // namespace

bool leads_to_mount(const fs::path& path, const fs::path& mountpoint) {
  if (fuse_descriptor(mountpoint)) return true;
  std::error_code failed;
  fs::path place = without_slash(fs::absolute(path, failed).lexically_normal());
  for (int links = 0; !failed && links < kMostLinks; ++links) {
    const fs::path parent = fs::canonical(place.parent_path(), failed);
    if (failed) return false;
    place = parent / place.filename();
    if (place == mountpoint) return true;
    const fs::path target = fs::read_symlink(place, failed);
    if (!failed) place = without_slash((parent / target).lexically_normal());
  }
  return false;
}

}  // namespace reshardfs
