// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/posix/mount_table.h"

namespace reshardfs {

enum class MountState : std::uint8_t {
  kLive,
  kDead,        ///< its process has ended
  kStalled,     ///< it does not answer
  kUnreadable,  ///< another user's, or it shows no status
};

struct MountStatus {
  MountEntry mount;
  MountState state = MountState::kUnreadable;
  int error = 0;                ///< why it is not live, where the system said so
  nlohmann::ordered_json json;  ///< its .reshardfs/status.json; null if it is not live
  std::string changed_file{};   ///< of its source, where one is not what it was; empty: none is
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
