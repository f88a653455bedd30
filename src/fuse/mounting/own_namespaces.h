// SPDX-License-Identifier: Apache-2.0
/// Mounting without any privilege: in a user and a mount namespace of this process's own, whose
/// mounts nobody else sees (user_namespaces(7); FUSE allows it since Linux 4.18).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace reshardfs {

/// The way on where nothing can be mounted.
inline constexpr const char* kWithoutMount =
    "without a mount: 'reshardfs export' with the same words writes the files, and Python's "
    "reshardfs.open() reads them";

/// What /proc/PID/status says of a process's rights to mount.
struct MountRights {
  bool has_capability = false;       ///< SYS_ADMIN, whatever its user is
  bool ignores_set_user_id = false;  ///< no_new_privs: programs such as fusermount3 have no effect
};

/// @param status the text of the file.
MountRights mount_rights(const std::string& status);
/// Of this process.
MountRights mount_rights();

/// @param path directories, as $PATH has them. @return empty if there is none.
std::filesystem::path find_program(const std::string& name, const std::string& path);
/// Whether the program always runs as root (set-user-ID).
bool is_set_user_id_root(const std::filesystem::path& program);

/// Whether this process may mount where others see it: by itself, or through the set-user-ID
/// program fusermount3 in PATH.
bool may_mount_plainly();

/// From now on this process is root in namespaces of its own. It must have one thread.
/// @throws Error kIo with the reason and the way on if the system forbids it.
void enter_own_namespaces();

/// In a child: another user namespace inside, in which its user and group are again what they were.
/// @return 0, or an error of errno(3).
int map_back(uid_t user, gid_t group) noexcept;

}  // namespace reshardfs
