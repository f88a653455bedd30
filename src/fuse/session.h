// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "fuse/mount_options.h"
#include "fuse/mounting/mount_table.h"
#include "fuse/mounting/unmount_notice.h"
#include "fuse/served_tree.h"
#include "storage/descriptor_pool.h"

namespace reshardfs {

/// A libfuse session: unmounted and freed at its end, by when no worker may use it.
class Session {
 public:
  /// @throws Error kUsage if a mount option is unknown; says which.
  Session(const MountOptions& options, ServedTree& served);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// @throws Error kIo with libfuse's reason and what to do, or if the list of mounts cannot be
  /// read.
  void mount();
  /// Instead of mount(), first: agrees with the kernel on what was agreed before, without asking
  /// it.
  /// @return empty, or what would be different now. @throws Error kIo
  std::string replay(const Negotiation& before);
  /// And then: goes on with a mount that another process has served.
  /// @param place as the list of mounts shows it; none: it came as a descriptor.
  /// @throws Error kIo
  void adopt(Descriptor fuse, std::optional<MountEntry> place);
  /// Another process goes on with the mount: this one answers nothing any more, and leaves it where
  /// it is.
  void release() noexcept;
  const std::optional<MountEntry>& place() const noexcept { return mount_; }
  /// From now on a mount that another process has taken away is not mistaken for the next one at
  /// its place. To be called when requests are answered, by a thread that answers none.
  void watch_for_unmount() noexcept;
  /// Takes the mount away from its place, whoever still uses it. Nothing if it is not there any
  /// more, or came as a descriptor, which is its owner's to unmount.
  void detach() noexcept;
  /// For the end of a process whose threads may still work: gives an error to everybody who waits
  /// for the mount, and then takes it away as detach() does. In this order, because the kernel's
  /// umount(2) waits for every processor to pass through the kernel (an RCU grace period), which
  /// took over a minute on a virtual machine whose processors were all busy.
  void abandon() noexcept;

  fuse_session* get() const noexcept { return session_; }
  /// Of /dev/fuse.
  int descriptor() const noexcept;

 private:
  bool is_in_place() noexcept;
  void take_away() noexcept;

  const MountOptions& options_;
  Channel& channel_;
  bool released_ = false;
  fuse_session* session_ = nullptr;
  std::optional<MountEntry> mount_;  ///< none if it came as a descriptor
  std::optional<UnmountNotice> notice_;
};

}  // namespace reshardfs
