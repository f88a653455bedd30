// SPDX-License-Identifier: Apache-2.0
/// The status that a mount reports, and whether it answers.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json/json_value.h"
#include "base/posix/mount_table.h"
#include "daemon/status/bounded_task.h"

namespace reshardfs {

/// All of .reshardfs/NAME of a mount, or the error number that keeps it from being read. Waits for
/// as long as the mount does not answer, so it is work for a BoundedTask. Anything may be mounted
/// there: links are not followed, and what does not end is EFBIG.
TaskResult read_control_file(const std::filesystem::path& mountpoint, const char* name);

struct Readiness {
  bool ready = false;
  std::string why;  ///< it is not; empty if it is
};

/// Whether the mount at `path` answers, and finds its source as it was when it was mounted. Looks
/// at the mount alone, so that it can be asked from a container that sees neither its process nor
/// how it was mounted. Takes no longer than some 2 s.
/// @throws Error kIo if no process can be started.
Readiness mount_readiness(const std::string& path);

enum class MountState : std::uint8_t {
  kLive,
  kDead,        ///< its process has ended
  kStalled,     ///< it does not answer
  kUnreadable,  ///< another user's, or it shows no status
};

struct MountStatus {
  MountEntry mount;
  MountState state = MountState::kUnreadable;
  int error = 0;               ///< why it is not live, where the system said so
  std::string text = "null";   ///< its .reshardfs/status.json; null if it is not live
  JsonDocument json{};         ///< the same
  std::string changed_file{};  ///< of its source, where one is not what it was; empty: none is
};

/// A live mount answers in milliseconds, even if its source is slow.
inline constexpr std::chrono::milliseconds kMountPatience{2000};

/// The states of these mounts, in the same order. Takes at most `patience` for all of them, even if
/// they do not answer: any file system may be mounted under the name of reshardfs.
std::vector<MountStatus> mount_statuses(const std::vector<MountEntry>& mounts,
                                        std::chrono::milliseconds patience = kMountPatience);
/// The same; before it each mount examines its source, for at most half as long again.
std::vector<MountStatus> examined_mounts(const std::vector<MountEntry>& mounts,
                                         std::chrono::milliseconds patience = kMountPatience);

/// The metrics of these mounts, in the same order, as one text for Prometheus: reshardfs_up, which
/// a mount of another user does not have, reshardfs_mount_state, and what the live ones say of
/// themselves. Each mount examines its source before, as by examined_mounts(), and it takes no
/// longer.
std::string mount_metrics(const std::vector<MountEntry>& mounts,
                          std::chrono::milliseconds patience = kMountPatience);

/// The name of a state for programs.
const char* name_of(MountState state) noexcept;

/// Of another user, who alone may ask it.
inline bool is_foreign(MountState state, int error) noexcept {
  return state == MountState::kUnreadable && error == EACCES;
}

/// The reshardfs mount at `path`, found in as short a time.
/// @throws Error kUsage if there is none, kIo if `path` leads through a mount that does not answer.
MountEntry bounded_find_mount(const std::string& path);

}  // namespace reshardfs
