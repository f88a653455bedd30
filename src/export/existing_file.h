// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "reshardfs/virtual_file.h"

#include "base/process/retry_once.h"
#include "export/folder.h"

namespace reshardfs {

enum class Standing : std::uint8_t {
  kMissing,   ///< to be written
  kSameSize,  ///< its contents decide
  kDiffers,   ///< in the way
};

/// How a file that is to have `size` bytes stands.
/// @throws Error kUsage if it is no regular file, or a name on its way is no directory; kIo.
Standing standing_of(const Folder& root, const std::filesystem::path& path, std::uint64_t size);

/// A file that is there already, to be read as those that are not. Opened at the first read: there
/// may be more of them than a process may have open.
class ExistingFile final : public VirtualFile {
 public:
  /// @param path below `root`, which must outlive this, as the path must.
  ExistingFile(const Folder& root, const std::filesystem::path& path, std::uint64_t size)
      : root_(root), path_(path), size_(size) {}

  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  void open() const;
  [[noreturn]] void throw_changed() const;

  const Folder& root_;
  const std::filesystem::path& path_;
  std::uint64_t size_;
  mutable RetryOnce opened_;
  mutable std::optional<Descriptor> file_;
};

}  // namespace reshardfs
