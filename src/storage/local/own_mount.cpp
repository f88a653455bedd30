// SPDX-License-Identifier: Apache-2.0
#include "storage/local/own_mount.h"

#include <list>
#include <string>
#include <system_error>

#include "base/process/process_state.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // those that the kernel follows in one path

fs::path& own_mount() {
  static fs::path place;
  return place;
}

}  // namespace

void set_own_mount(const fs::path& place) {
  const ForkLock lock;
  own_mount() = place;
}

bool leads_into_own_mount(const fs::path& path) {
  const fs::path& place = own_mount();
  if (place.empty()) return false;
  std::list<fs::path> names(path.begin(), path.end());
  fs::path here("/");
  for (int links = 0; !names.empty();) {
    const fs::path name = names.front();
    names.pop_front();
    if (name == "..") here = here.parent_path();
    if (name.empty() || name == "." || name == "..") continue;
    const fs::path next = name.is_absolute() ? name : here / name;
    if (next == place) return true;
    std::error_code is_none;
    const fs::path target = fs::read_symlink(next, is_none);
    if (is_none) {
      here = next;
    } else if (++links > kMostLinks) {
      return false;
    } else {
      names.insert(names.begin(), target.begin(), target.end());
    }
  }
  return false;
}

bool leads_into_own_mount(int directory, const char* name) {
  if (own_mount().empty()) return false;
  std::error_code failed;
  const fs::path place = fs::read_symlink("/proc/self/fd/" + std::to_string(directory), failed);
  return !failed && leads_into_own_mount(place / name);
}

}  // namespace reshardfs
