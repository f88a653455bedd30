// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "fuse/mount_options.h"

namespace reshardfs {

/// --uid, --gid, --file-mode and --dir-mode: whose the files of a mount are, and who may read them.
struct AccessArguments {
  uid_t uid = ::getuid();
  gid_t gid = ::getgid();
  mode_t file_mode = MountOptions{}.file_mode;
  mode_t dir_mode = MountOptions{}.dir_mode;

  void add_to(CLI::App& command);
};

/// What a mode means for data that cannot be written: its read bits.
mode_t file_mode_of(mode_t mode);
/// The same of directories. Who may read one may search it too: anything else would show names
/// without their files.
mode_t dir_mode_of(mode_t mode);

}  // namespace reshardfs
