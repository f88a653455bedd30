// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/posix/mount_table.h"
#include "base/process/mount_record.h"
#include "fuse/channel.h"
#include "fuse/kernel_caches.h"
#include "storage/inputs.h"

namespace reshardfs {

struct MountedTree {
  std::uint64_t version = 0;
  /// What tells its contents from others'; empty: that is not known.
  std::string subject{};
  /// The command line that shows it, without the program's name and with nothing left to be looked
  /// up in a configuration file.
  std::vector<std::string> words{};
  std::string
      source{};  ///< where its path led when it was opened; links in it may have changed since
  std::string step{};  ///< the step that was opened, even if there is a newer one now; empty: none
  /// Of the source's runs and models the one that is shown, see ConversionOptions::src_prefix;
  /// empty: there is nothing to choose, or that is not known.
  std::string series{};
  /// Small files that were read beside the tensors, so that the tree can be shown again after they
  /// have changed.
  std::vector<SavedInput> inputs{};
};

/// The versions of the hand-over (HandoverState, and the messages of handover.h) that this program
/// takes; it gives the newest. A higher number is for what older programs would misunderstand:
/// members that they do not know are passed over.
struct HandoverVersions {
  unsigned oldest = 0;
  unsigned newest = 0;
};
HandoverVersions handover_versions() noexcept;

/// What a process must know to go on with a mount that another one has served, beside the
/// descriptor of /dev/fuse and the requests under way.
struct HandoverState {
  std::string program{};  ///< version of the program that wrote it
  std::string mountpoint{};
  std::optional<MountEntry> mount{};  ///< none: it came as a descriptor
  Negotiation negotiation{};
  std::vector<MountedTree> trees{};  ///< HandoverOptions::trees
  /// The kernel is yet to be told that it has replaced another one, or changed its attributes.
  bool is_new = false;
  std::uint64_t processes = 0;  ///< that have served it
  MountRecord record{};
};

/// As JSON. Strings may have any bytes.
std::string encode(const HandoverState& state);
/// @throws Error kUnsupported if it is of a version that this program does not take, or damaged.
HandoverState decode_state(const std::string& text);

std::string encode(const std::vector<KnownName>& names);
/// @throws Error kUnsupported
std::vector<KnownName> decode_names(const std::string& text);

/// What an opening holds of its moment.
struct HeldText {
  std::uint64_t handle = 0;
  std::string bytes{};
};

/// What only lives as long as a process, so that it is handed over but does not survive a crash.
struct OpenState {
  std::vector<HeldText> texts{};
  std::vector<HeldText> listings{};  ///< TreeSource::save_listing()
};

std::string encode(const OpenState& state);
/// @throws Error kUnsupported
OpenState decode_open_state(const std::string& text);

}  // namespace reshardfs
