// SPDX-License-Identifier: Apache-2.0
/// The options of the command mount.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/table.h"
#include "cli/words/given.h"
#include "daemon/process/log.h"
#include "fuse/mounting/fuse_socket.h"

namespace reshardfs {

struct MountArguments {
  /// What they come from; conversion_options() has the rest of it.
  Given given{program_command()};
  LogSettings log;
  std::string source;
  /// With a FUSE socket: what the mount is called, or empty.
  std::string mountpoint;
  std::optional<FuseSocket> fuse_socket;
  unsigned fuse_socket_wait = 0;  ///< seconds
  std::vector<std::string> fuse_options;
  bool foreground = false;
  bool check_only = false;
  std::optional<std::chrono::seconds> wait_for_source;
  bool nonempty = false;
  bool allow_other = false;
  bool direct_io = false;
  bool passthrough = false;
  bool supervise = false;
  unsigned crash_limit = 0;
  std::optional<unsigned> read_ahead_kb;
  std::vector<std::string> warm;  ///< paths in the mount
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t file_mode = 0;
  mode_t dir_mode = 0;
};

/// @throws Error kUsage.
MountArguments mount_arguments(const Given& given);

/// @param words a whole command line, with nothing left to be looked up in a configuration file.
/// @param from_file whether some of them came from one.
/// @throws Error kUnsupported if this version does not understand them.
Given read_mount_words(const std::vector<std::string>& words, bool from_file);

/// What a mode means for data that cannot be written: its read bits.
mode_t file_mode_of(mode_t mode);
/// The same for directories. Read permission implies search permission: without it, users would see
/// names but not their files.
mode_t dir_mode_of(mode_t mode);

}  // namespace reshardfs
