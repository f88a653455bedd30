// SPDX-License-Identifier: Apache-2.0
/// A command beside a mount that is there for it: three processes, of which each ends with the
/// others.
#pragma once

#include <string>
#include <vector>

namespace reshardfs {

/// What the mount finds in its environment: the command, as a user would type it. Its messages then
/// propose `reshardfs run`.
inline constexpr const char* kBesideCommand = "RESHARDFS_BESIDE_COMMAND";

struct MountedCommand {
  /// Of `reshardfs mount`, which is to stay in the foreground: all words but the program's name.
  std::vector<std::string> mount{};
  std::string mountpoint{};
  std::vector<std::string> command{};  ///< not empty; the first word is looked for in PATH
};

/// Mounts where this process may, else in namespaces of its own (own_namespaces.h). Starts the
/// command when the mount is ready, hands signals on to it, and unmounts when it has ended.
///
/// If this process is killed, so is the command, and the mount ends. If the mount is killed, the
/// command goes on, and its reads fail.
/// @return the command's exit code: 128 and the number of the signal that has ended it, 127 if
///         there is no such program, 126 if it cannot be run; the mount's own if it did not come to
///         be.
/// @throws Error kIo
int run_mounted(const MountedCommand& job);

}  // namespace reshardfs
