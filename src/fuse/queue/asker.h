// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

#include "base/process/log_event.h"
#include "fuse/libfuse.h"

namespace reshardfs {

/// Who makes a request, and since when.
struct Asker {
  using Clock = std::chrono::steady_clock;

  /// Its thread, as fuse_ctx has it; 0: the kernel itself, or a thread of a process namespace that
  /// this process does not see.
  pid_t thread = 0;
  Clock::time_point since = Clock::now();

  /// That of a request which has just come.
  static Asker of(fuse_req_t request) noexcept;

  /// Adds the process, its cgroup and the time so far; what cannot be found out is left out.
  void describe(LogFields& fields) const;
};

/// What is asked for, for the log.
struct Asked {
  fuse_ino_t inode = 0;
  const char* operation = "";  ///< a literal
  Asker asker{};
};

/// The number of the process that a thread belongs to, from the text of /proc/<thread>/status; 0 if
/// it does not say.
pid_t process_of_status(std::string_view status) noexcept;

/// The path of the cgroup from the text of /proc/<thread>/cgroup: that of version 2, or else of the
/// first hierarchy of version 1 which has a path other than "/". Empty if there is none.
std::string cgroup_path(std::string_view text);

}  // namespace reshardfs
