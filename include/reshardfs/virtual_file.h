// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reshardfs/export.h"

namespace reshardfs {

/// A read-only file whose bytes are computed when they are read. Immutable; every member function
/// may be called from any number of threads at once.
class RESHARDFS_EXPORT VirtualFile {
 public:
  VirtualFile() = default;
  VirtualFile(const VirtualFile&) = delete;
  VirtualFile& operator=(const VirtualFile&) = delete;
  virtual ~VirtualFile() = default;

  /// Bytes. Known without reading any tensor data.
  virtual std::uint64_t size() const = 0;

  /// Fills all of `out` with the bytes from `offset` on. Blocks on source I/O; allocates nothing
  /// in proportion to the file.
  /// @throws Error kBadInput if the range leaves the file; kIo or kChanged if a source fails. Then
  ///         the contents of `out` are unspecified: never use a part of them.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

}  // namespace reshardfs
