// SPDX-License-Identifier: Apache-2.0
#include "storage/local/own_mount.h"

#include <string>
#include <system_error>

#include "base/process/process_state.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

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
  if (own_mount().empty()) return false;
  const auto found = follow_links(path, own_mount());
  return found && found->place == own_mount();
}

bool leads_into_own_mount(int directory, const char* name) {
  if (own_mount().empty()) return false;
  std::error_code failed;
  const fs::path place = fs::read_symlink("/proc/self/fd/" + std::to_string(directory), failed);
  return !failed && leads_into_own_mount(place / name);
}

}  // namespace reshardfs
