// SPDX-License-Identifier: Apache-2.0
/// The options of the command mount.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/words/access_arguments.h"
#include "cli/words/conversion_arguments.h"
#include "daemon/mount_role.h"
#include "fuse/mounting/fuse_socket.h"

namespace reshardfs {

struct MountArguments {
  ConversionArguments conversion;
  /// With a FUSE socket: what the mount is called, or empty.
  std::string mountpoint;
  std::optional<FuseSocket> fuse_socket;
  unsigned fuse_socket_wait = 60;
  std::vector<std::string> fuse_options;
  bool foreground = false;
  bool check_only = false;
  bool nonempty = false;
  bool allow_other = false;
  bool direct_io = false;
  bool passthrough = false;
  bool supervise = false;
  unsigned crash_limit = MountRoleChoices{}.crash_limit;
  std::optional<unsigned> read_ahead_kb;
  AccessArguments access;

  /// The arguments must stay where they are.
  void add_to(CLI::App& command);
};

/// @param words a whole command line, with nothing left to be looked up in a configuration file.
/// @throws Error kUnsupported if this version does not understand them.
std::shared_ptr<const MountArguments> parse_mount_words(std::vector<std::string> words);

}  // namespace reshardfs
