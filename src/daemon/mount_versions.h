// SPDX-License-Identifier: Apache-2.0
/// Which trees a mount shows: the one that its command line describes, and those that it has
/// replaced in the same mount and that programs have open files of.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "daemon/handover/takeover.h"
#include "fuse/mounting/mount_options.h"
#include "vfs/tree_versions.h"

namespace reshardfs {

/// The command line of a mount, and how such words are read.
struct MountWords {
  /// With nothing left to be looked up in a configuration file.
  std::vector<std::string> words;
  /// Of this mount's words, or of those that another version of the program was given.
  /// @throws Error kUnsupported if this version does not take them.
  std::function<ConversionOptions(const std::vector<std::string>& words)> options_of;
};

struct MountVersions {
  std::vector<TreeVersions::Version> trees;  ///< the last one is shown
  std::vector<MountedTree> known;            ///< the same, for other processes
  std::optional<TreeChange> change;
  std::vector<std::uint64_t> without_openings;  ///< as in HandoverOptions
};

/// @param mount all but its hand-over.
/// @param before the mount that goes on; nullptr: it is a new one. Learns what is shown.
/// @throws Error kChanged if that mount shows something else, and must not show another tree;
///         kUnsupported if it cannot, or if its trees cannot be shown any more.
MountVersions mount_versions(const ConversionOptions& options, const Conversion& conversion,
                             const MountOptions& mount, const MountWords& words, Takeover* before);

/// The same for a mount of all steps, whose tree tracks its own versions.
/// @param series see MountedTree.
MountVersions steps_versions(const ConversionOptions& options, const std::string& series,
                             const MountOptions& mount, const MountWords& words, Takeover* before);

/// The options for what a mount goes on with: the newest step, the run of which it is, and what the
/// source's path leads to, are those which it has shown, but where another tree may be shown.
ConversionOptions options_after(ConversionOptions options, const MountWords& words,
                                const Takeover& before);

}  // namespace reshardfs
