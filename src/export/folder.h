// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/file_lock.h"

namespace reshardfs {

/// Whether it leads from a directory to something below it by its names alone: relative, not empty,
/// and without "." and "..".
bool is_plain_path(const std::filesystem::path& path);

/// A directory that is held open, so that operations reach it even if its path is renamed or
/// replaced. None of its functions except open() follows a symbolic link.
class Folder {
 public:
  /// The directory that the user means: links are followed.
  /// @throws Error kUsage if it is no directory, kMissing if there is none, kIo.
  static Folder open(const std::filesystem::path& path);

  /// A directory below this one; nothing if there is none. An empty path: this directory.
  /// @param below plain, or empty.
  /// @throws Error kUsage if one of its names is a link or a file, kIo.
  std::optional<Folder> find(const std::filesystem::path& below) const;
  /// The same, made with those above it if it is not there.
  Folder make(const std::filesystem::path& below) const;

  /// What stands under a name; nothing if there is nothing.
  /// @throws Error kIo.
  std::optional<struct stat> look_at(const std::string& name) const;
  /// All names in it but "." and "..", sorted. @throws Error kIo.
  std::vector<std::string> names() const;
  /// As open_in(), in this directory.
  Descriptor open_file(const std::string& name, int flags, mode_t mode = 0) const noexcept {
    return open_in(descriptor(), name.c_str(), flags, mode);
  }
  /// Waits until its names are on disk. @throws Error kIo.
  void sync() const;

  const Descriptor& opened() const noexcept { return descriptor_; }
  int descriptor() const noexcept { return descriptor_.get(); }
  /// For messages.
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  Folder(Descriptor descriptor, std::filesystem::path path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}
  std::optional<Folder> walk(const std::filesystem::path& below, bool make) const;

  Descriptor descriptor_;
  std::filesystem::path path_;
};

/// Locks a directory or a file in it for as long as it is open. Does nothing where there is none,
/// or where locks do not work.
/// @throws Error kUsage if another process has locked it.
void require_lock(const Descriptor& opened, LockMode mode, const std::filesystem::path& directory);

/// That error.
Error in_use_error(const std::filesystem::path& directory);

}  // namespace reshardfs
