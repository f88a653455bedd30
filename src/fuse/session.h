// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/posix/descriptor.h"
#include "base/posix/mount_table.h"
#include "fuse/mounting/mount_options.h"
#include "fuse/mounting/unmount.h"
#include "fuse/served_tree.h"

namespace reshardfs {

/// @throws Error kUsage if libfuse does not know a mount option; says which.
void require_known_options(const MountOptions& options);

/// A libfuse session. The destructor unmounts and frees it; no worker may use it any more.
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
  /// The first step instead of mount(): restores what was agreed with the kernel before, without
  /// asking it.
  /// @return the differences from a new agreement; empty: none. @throws Error kIo
  std::string replay(const Negotiation& before);
  /// The second step: takes over a mount that another process has served.
  /// @param place as the list of mounts shows it; none: it came as a descriptor.
  /// @throws Error kIo
  void adopt(Descriptor fuse, std::optional<MountEntry> place);
  /// Leaves the mount to another process: this one answers no more requests, and does not unmount
  /// it.
  void release() noexcept;
  const std::optional<MountEntry>& place() const noexcept { return mount_; }
  /// Whether the place shows this mount: neither nothing nor a later one. False if it came as a
  /// descriptor.
  bool is_in_place() noexcept;
  /// From now on, a later mount at the same place is not mistaken for this one after another
  /// process has unmounted it. Call this while requests are being answered, on a thread that does
  /// not answer them.
  void watch_for_unmount() noexcept;
  /// Detaches the mount from its place, even if it is in use. Does nothing if it is no longer
  /// there, or came as a descriptor, which its owner must unmount.
  void detach() noexcept;
  /// For the end of a process whose threads may still be working: returns an error to all programs
  /// that wait for the mount, and then detaches it like detach(). This order is needed because the
  /// kernel's umount(2) waits for every processor to pass through the kernel (an RCU grace period),
  /// which took over a minute on a virtual machine with busy processors.
  void abandon() noexcept;

  fuse_session* get() const noexcept { return session_; }
  /// Of /dev/fuse.
  int descriptor() const noexcept;

 private:
  void take_away() noexcept;

  const MountOptions& options_;
  Channel& channel_;
  bool released_ = false;
  fuse_session* session_ = nullptr;
  std::optional<MountEntry> mount_;  ///< none if it came as a descriptor
  std::optional<UnmountNotice> notice_;
};

}  // namespace reshardfs
