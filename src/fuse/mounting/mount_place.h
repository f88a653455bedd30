// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "storage/descriptor_pool.h"

namespace reshardfs {

/// A lock on the directory that is mounted on, from before it is found to be empty until something
/// is mounted there: of several processes that mount at one place at the same moment one does, and
/// the others are told, instead of covering each other.
class MountPlace {
 public:
  /// @param mountpoint real; /dev/fd/N is nobody's place.
  /// @throws Error kUsage if another process has the lock.
  explicit MountPlace(const std::filesystem::path& mountpoint);
  MountPlace(const MountPlace&) = delete;
  MountPlace& operator=(const MountPlace&) = delete;
  /// Lets others mount: on what is there now.
  ~MountPlace() = default;

 private:
  Descriptor directory_;
};

}  // namespace reshardfs
