// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "reshardfs/error.h"

#include "export/folder.h"

namespace reshardfs {

enum class Lock : std::uint8_t {
  kShared,     ///< others may have it, too
  kExclusive,  ///< nobody else
};

/// Locks a directory or a file in it for as long as it is open.
/// @return whether no other process has locked it. True, too, where locks do not work (a directory
///         on NFS).
bool try_lock(int descriptor, Lock lock) noexcept;

/// The error for a directory whose locks another process has.
Error in_use_error(const std::filesystem::path& directory);

/// The directory that an export writes into: made if it is not there, and locked, so that two
/// exports do not write the same files at once.
class TargetDirectory {
 public:
  /// @param source must not lie in the directory, nor the reverse: an export would find its own
  ///        files among the source's at the next start.
  /// @throws Error kUsage if they overlap, it is no directory or it is in use; kIo.
  /// @param lock shared, if other processes write other files of the same export.
  TargetDirectory(const std::filesystem::path& path, const std::filesystem::path& source,
                  Lock lock = Lock::kExclusive);
  TargetDirectory(const TargetDirectory&) = delete;
  TargetDirectory& operator=(const TargetDirectory&) = delete;

  const Folder& folder() const noexcept { return folder_; }
  /// @throws Error kIo if the file system has less than that many bytes for this user.
  void require_space(std::uint64_t bytes) const;

 private:
  Folder folder_;
};

}  // namespace reshardfs
