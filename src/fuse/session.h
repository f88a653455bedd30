// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "fuse/mount.h"
#include "fuse/mount_table.h"
#include "fuse/operations.h"

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

  fuse_session* get() const noexcept { return session_; }

 private:
  void detach_if_left() const;

  const MountOptions& options_;
  fuse_session* session_ = nullptr;
  std::optional<MountEntry> mount_;
};

}  // namespace reshardfs
