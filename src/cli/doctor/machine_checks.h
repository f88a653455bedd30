// SPDX-License-Identifier: Apache-2.0
/// What a machine needs so that mounting works, checked one by one. None of these waits for a file
/// system or a server.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/doctor/finding.h"
#include "fuse/mounting/own_namespaces.h"

namespace reshardfs {

Finding check_device(const std::filesystem::path& device = "/dev/fuse");
/// Whether this process may mount: with the capability, or through fusermount3.
/// @param path where it is looked for, as $PATH has it.
Finding check_right_to_mount(const MountRights& rights, const std::string& path);
/// Whether this user may let others read a mount.
/// @param needed by a mount that is being checked.
Finding check_allow_other(bool is_root, bool needed,
                          const std::filesystem::path& config = "/etc/fuse.conf");
/// @param release as uname -r prints it.
Finding check_kernel(const std::string& release);
/// How much the kernel asks for at once, where that can be set (Linux 6.13).
Finding check_request_size(
    const std::filesystem::path& limit = "/proc/sys/fs/fuse/max_pages_limit");
/// @param needed by a mount that is being checked.
Finding check_passthrough(const std::string& release, bool is_root, bool needed);
/// FUSE over io_uring, which reshardfs does not use.
Finding check_io_uring(
    const std::filesystem::path& parameter = "/sys/module/fuse/parameters/enable_uring");
Finding check_open_files(std::uint64_t soft, std::uint64_t hard);
/// @param most of this user: threads, too; nullopt: unlimited.
Finding check_processes(std::optional<std::uint64_t> most);
/// Of files that are watched for writers. Makes a watch, and removes it.
/// @param limits the directory with the user's limits.
Finding check_watches(const std::filesystem::path& limits = "/proc/sys/fs/inotify");
/// Whether the daemon may raise the kernel's read-ahead for its mount.
Finding check_read_ahead(const std::filesystem::path& bdi = "/sys/class/bdi");
/// For keys of encrypted files.
/// @param most bytes that may be locked; nullopt: unlimited.
Finding check_locked_memory(std::optional<std::uint64_t> most);

/// All of the above that do not depend on a mount, on this machine.
Findings check_machine();

/// The value of a limit of this process (getrlimit(2)); nullopt: unlimited.
std::optional<std::uint64_t> hard_limit(int resource);
/// As uname -r prints it.
std::string kernel_release();

}  // namespace reshardfs
