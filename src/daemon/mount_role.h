// SPDX-License-Identifier: Apache-2.0
/// Whether a mount is new or taken over from another process, and what keeps it if this process
/// crashes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/handover/handover_options.h"
#include "daemon/handover/takeover.h"
#include "daemon/serve.h"

namespace reshardfs {

/// What of the command line decides.
struct MountRoleChoices {
  bool supervise = false;
  bool foreground = false;
  bool passthrough = false;
  unsigned crash_limit = 5;
  std::vector<std::string> fuse_options;
};

class MountRole {
 public:
  /// @throws Error kUsage if the choices exclude each other, and as Takeover does.
  /// @param takeover a mount that there is; nullptr: it is to be made.
  /// @param successor what goes on with the mount after this process.
  MountRole(MountRoleChoices choices, ProgramStart successor, std::unique_ptr<Takeover> takeover);
  MountRole(const MountRole&) = delete;
  MountRole& operator=(const MountRole&) = delete;
  ~MountRole() = default;

  /// The mount is there already; nullptr: it is to be made.
  Takeover* takeover() const noexcept { return takeover_.get(); }
  /// Whether a supervisor must be started before the mount is made.
  bool wants_supervisor() const noexcept;
  /// What goes on with the mount after this process.
  const ProgramStart& successor() const noexcept { return successor_; }
  void supervise_by(Descriptor connection);

  /// All but what is mounted. @throws Error kUnsupported if the mount has crashed too often.
  HandoverOptions options() const;
  /// To be called where a mount fails that was to be taken over.
  void fail(const std::string& why) const noexcept;

 private:
  std::string obstacle() const;

  const MountRoleChoices choices_;
  const ProgramStart successor_;
  std::unique_ptr<Takeover> takeover_;
  std::unique_ptr<MountKeeper> keeper_;
  bool by_manager_ = false;  ///< a service manager keeps the mount
};

}  // namespace reshardfs
