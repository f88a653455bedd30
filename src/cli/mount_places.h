// SPDX-License-Identifier: Apache-2.0
/// The places that a command line of `mount` names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/words/given.h"
#include "cli/words/mount_arguments.h"
#include "daemon/handover/handover_state.h"

namespace reshardfs {

/// What messages call the mount.
std::string place_of(const MountArguments& arguments);

/// From now on logs and metrics name the mount. Looks at no file.
void name_mount(const MountArguments& arguments, const std::filesystem::path& source);

/// @throws Error kUsage if this process cannot find the mount by a path.
std::vector<std::filesystem::path> paths_to_warm(const MountArguments& arguments);

/// A mount stays where it is. @param asked what the command line and the configuration name now.
/// @throws Error kUsage if that is another place.
void require_same_place(const std::string& asked, const HandoverState& state);

/// The mount would hide them, and a process that takes it over could not open them: after a crash,
/// it would wait for its own answer.
/// @throws Error kUsage if the log or the cache lies inside the mount point.
void refuse_outputs_inside(const MountArguments& arguments);
/// The same for files that options name, such as strategies. Looks at them.
void refuse_inputs_inside(const MountArguments& arguments);

/// @param given of `mount`, with a source and a mount point.
/// @throws Error kUsage if the source is an empty directory and the mount point a checkpoint: then
///         the two were given in the wrong order.
void refuse_swapped_places(const Given& given);

}  // namespace reshardfs
