// SPDX-License-Identifier: Apache-2.0
/// Which trees a mount shows: the one that its command line describes, and those that it has
/// replaced in the same mount and that programs have open files of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "fuse/mount.h"
#include "fuse/takeover.h"
#include "vfs/tree_versions.h"

namespace reshardfs {

struct MountVersions {
  std::vector<TreeVersions::Version> trees;  ///< the last one is shown
  std::vector<MountedTree> known;            ///< the same, for other processes
  std::optional<TreeChange> change;
  std::vector<std::uint64_t> without_openings;  ///< as in HandoverOptions
};

/// @param mount all but its hand-over.
/// @param before the mount that goes on; nullptr: it is a new one. Learns what is shown.
/// @throws Error kChanged if that mount shows something else, and shall not show another tree;
///         kUnsupported if it cannot, or if its trees cannot be shown any more.
MountVersions mount_versions(const ConversionOptions& options, const Conversion& conversion,
                             const MountOptions& mount, Takeover* before);

/// The same for a mount of all steps, whose tree keeps account of itself.
/// @param series see MountedTree.
MountVersions steps_versions(const ConversionOptions& options, const std::string& series,
                             const MountOptions& mount, Takeover* before);

/// The options for what a mount goes on with: the newest step, the run of which it is, and what the
/// source's path leads to, are those which it has shown, but where another tree may be shown.
ConversionOptions options_after(ConversionOptions options, const Takeover& before);

}  // namespace reshardfs
