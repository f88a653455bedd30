// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reshardfs {

struct CommandResult {
  int exit_code = 0;     ///< 128 + signal number if a signal ended it
  std::string messages;  ///< what it wrote to standard error
};

/// Runs fusermount3, the set-user-ID program through which ordinary users unmount, without a shell.
/// @throws Error kIo if it cannot be started.
CommandResult run_fusermount(const std::vector<std::string>& arguments);

/// Takes a mount out of the directory tree, even while files in it are open.
/// @return whether it is gone.
bool detach_mount(const std::filesystem::path& mountpoint);

}  // namespace reshardfs
