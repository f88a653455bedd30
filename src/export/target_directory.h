// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "export/folder.h"

namespace reshardfs {

/// Locks a directory or a file in it for as long as it is open. Where it cannot be locked (a
/// directory on NFS) nothing happens.
/// @throws Error kUsage if another process has locked it.
void lock_for_export(int descriptor, const std::filesystem::path& directory);

/// The directory that an export writes into: made if it is not there, and locked, so that two
/// exports do not write the same files at once.
class TargetDirectory {
 public:
  /// @param source must not lie in the directory, nor the reverse: an export would find its own
  ///        files among the source's at the next start.
  /// @throws Error kUsage if they overlap, it is no directory or it is in use; kIo.
  TargetDirectory(const std::filesystem::path& path, const std::filesystem::path& source);
  TargetDirectory(const TargetDirectory&) = delete;
  TargetDirectory& operator=(const TargetDirectory&) = delete;

  const Folder& folder() const noexcept { return folder_; }
  /// @throws Error kIo if the file system has less than that many bytes for this user.
  void require_space(std::uint64_t bytes) const;

 private:
  Folder folder_;
};

}  // namespace reshardfs
