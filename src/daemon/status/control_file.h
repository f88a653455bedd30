// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "daemon/status/bounded_task.h"

namespace reshardfs {

/// All of .reshardfs/NAME of a mount, or the error number that keeps it from being read. Waits for
/// as long as the mount does not answer, so it is work for a BoundedTask. Anything may be mounted
/// there: links are not followed, and what does not end is EFBIG.
TaskResult read_control_file(const std::filesystem::path& mountpoint, const char* name);

}  // namespace reshardfs
