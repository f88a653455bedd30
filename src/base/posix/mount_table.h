// SPDX-License-Identifier: Apache-2.0
/// The kernel's list of mounts. Reading it accesses no mount, so it works even if a mount hangs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

inline constexpr std::string_view kMountType = "fuse.reshardfs";

struct MountEntry {
  std::int64_t id = 0;
  std::string device;  ///< "major:minor"
  std::string mountpoint;
  std::string type;
  std::string source;
};

/// A field of such a list, or of fstab(5), where space, tab, newline, '#' and backslash are written
/// as \ooo.
std::string unescape_mount_field(std::string_view field);

/// @param text in the format of /proc/self/mountinfo (see proc(5)); other lines are ignored.
std::vector<MountEntry> parse_mount_table(std::string_view text);

/// What is mounted at exactly `path` (absolute, no symbolic links); the topmost if several are.
/// @throws Error kIo
std::optional<MountEntry> mount_at(const std::filesystem::path& path);

/// This mount where it is now: its directory or one above may have been renamed. Nothing if it is
/// gone, or if a later one covers it.
/// @throws Error kIo
std::optional<MountEntry> found_again(const MountEntry& mount);

/// @throws Error kIo
inline bool is_still_there(const MountEntry& mount) {
  return found_again(mount).has_value();
}

inline bool is_reshardfs(const MountEntry& mount) {
  return mount.type == kMountType;
}

/// The reshardfs mounts, in the order of their mount points; without those that another mount at
/// the same place covers.
/// @throws Error kIo
std::vector<MountEntry> reshardfs_mounts();

/// @throws Error kUsage if the path of a mount point is empty, as with an unset variable.
void require_mount_path(const std::filesystem::path& path);

/// The mount at `path`, which may be written in several ways; one of another type only if none of
/// them leads to one of reshardfs. A path that is a mount point as it stands is answered from the
/// list alone; any other may lead through a mount that does not answer, and then this waits.
/// @throws Error kIo, and as require_mount_path()
std::optional<MountEntry> find_mount(const std::filesystem::path& path);

}  // namespace reshardfs
