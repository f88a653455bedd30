// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace reshardfs {

/// The name that a file has beside its own until it is complete: `.NAME.reshardfs-partial`, or if
/// that would be too long for a file system, a hash in place of NAME.
std::string partial_name(const std::string& name);

/// A file that has its name only when all of it is on disk. Until then it has another one in the
/// same directory, and is removed if it is not committed.
class PartialFile {
 public:
  /// Makes the directories above it. What an earlier run has left of it is replaced.
  /// @param size bytes that it will have.
  /// @throws Error kIo.
  PartialFile(std::filesystem::path path, std::uint64_t size);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  /// May be called from several threads. @throws Error kIo.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Waits until the bytes are on disk. @throws Error kIo.
  void sync();
  /// Gives it its name. The directory is not synced.
  /// @param replace whether a file of that name may be replaced.
  /// @throws Error kUsage if there is one and it may not, kIo.
  void commit(bool replace);

 private:
  void close() noexcept;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

/// Waits until the names in a directory are on disk. @throws Error kIo.
void sync_directory(const std::filesystem::path& path);

}  // namespace reshardfs
