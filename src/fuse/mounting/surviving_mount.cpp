// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/surviving_mount.h"

#include <algorithm>
#include <exception>
#include <set>
#include <system_error>
#include <vector>

#include "base/posix/read_write.h"
#include "base/text/numbers.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// A device number is free for the next mount as soon as the last place of one is gone.
bool is_same(const MountEntry& entry, const MountEntry& unmounted) {
  return entry.device == unmounted.device && is_reshardfs(entry) &&
         entry.source == unmounted.source && entry.id != unmounted.id;
}

std::optional<MountEntry> find_in(const fs::path& process, const MountEntry& unmounted) {
  for (MountEntry& entry : parse_mount_table(text_of_file(process / "mountinfo"))) {
    if (is_same(entry, unmounted)) return std::move(entry);
  }
  return {};
}

std::optional<pid_t> process_number(const fs::path& directory) {
  return parse_number<pid_t>(directory.filename().native());
}

/// One process of each mount namespace is looked at.
std::optional<SurvivingMount> find_elsewhere(const MountEntry& unmounted) {
  std::set<fs::path> seen;
  std::error_code failed;
  seen.insert(fs::read_symlink("/proc/self/ns/mnt", failed));
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto number = process_number(entry.path());
    if (!number) continue;
    const fs::path space = fs::read_symlink(entry.path() / "ns" / "mnt", failed);
    if (failed || !seen.insert(space).second) continue;
    const auto found = find_in(entry.path(), unmounted);
    if (!found) continue;
    const fs::path below_root = fs::path(found->mountpoint).relative_path();
    return SurvivingMount{found->mountpoint, *number, first_line_of(entry.path() / "comm"),
                          entry.path() / "root" / below_root};
  }
  return {};
}

/// The kernel lists what every mount that is somewhere has.
bool has_device(const MountEntry& mount) {
  std::error_code failed;
  return fs::exists("/sys/class/bdi/" + mount.device, failed) && !failed;
}

}  // namespace

std::optional<SurvivingMount> surviving_mount(const MountEntry& unmounted) noexcept {
  try {
    std::error_code failed;
    const bool lists_devices = fs::is_directory("/sys/class/bdi", failed);
    if (lists_devices && !has_device(unmounted)) return {};
    if (const auto here = find_in("/proc/self", unmounted)) {
      return SurvivingMount{here->mountpoint, 0, "", here->mountpoint};
    }
    if (auto elsewhere = find_elsewhere(unmounted)) return elsewhere;
    // The device may be another mount's by now, which is here then.
    const std::vector<MountEntry> now = parse_mount_table(text_of_file("/proc/self/mountinfo"));
    const bool reused = std::any_of(now.begin(), now.end(), [&](const MountEntry& entry) {
      return entry.device == unmounted.device;
    });
    if (lists_devices && !reused && has_device(unmounted)) return SurvivingMount{};
  } catch (const std::exception&) {
    // It is unmounted here, which was the task.
  }
  return {};
}

}  // namespace reshardfs
