// SPDX-License-Identifier: Apache-2.0
/// The service manager that has started this process: what sd_notify(3) and
/// sd_listen_fds_with_names(3) do.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "daemon/handover/handover.h"
#include "daemon/handover/handover_options.h"

namespace reshardfs {

/// Whether there is a manager that listens.
bool has_service_manager() noexcept;

/// Tells it how this process is: lines such as READY=1 or STATUS=TEXT. A manager that does not
/// listen is no reason to stop.
/// @param descriptors for FDSTORE=1.
void notify_service_manager(const std::string& state,
                            std::span<const int> descriptors = {}) noexcept;

/// Has the service manager keep the mount's descriptors (FileDescriptorStoreMax= in
/// systemd.service(5)), so that the process that it starts after a crash goes on with the mount.
class ServiceManagerKeeper final : public MountKeeper {
 public:
  void keep(int fuse, int requests, int state) noexcept override;
  void release() noexcept override;
};

/// What was kept, in a process that the manager has started after a crash. To be asked once: it
/// takes the descriptors.
std::optional<MountDescriptors> take_kept_mount() noexcept;

}  // namespace reshardfs
