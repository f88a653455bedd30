// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace reshardfs {

/// An open file or directory of the cache, closed at the end of its scope.
class OpenFile {
 public:
  /// @param descriptor below zero: no file.
  explicit OpenFile(int descriptor) noexcept : descriptor_(descriptor) {}
  OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  int get() const noexcept { return descriptor_; }
  /// Nothing, with errno, if the system does not tell.
  std::optional<struct stat> status() const noexcept;

 private:
  int descriptor_;
};

/// Opens without following a link, and without blocking on a FIFO or a device.
/// @param name below the directory.
OpenFile open_file(int directory, const char* name, int flags, mode_t mode = 0) noexcept;

/// Fills all of them, one after the other, from `offset` on.
/// @param buffers is changed.
/// @return 0, or the error number; EBADMSG if the file ends before.
int read_fully(int file, std::span<iovec> buffers, std::uint64_t offset) noexcept;

/// @return 0, or the error number.
int write_fully(int file, std::span<const std::byte> bytes, std::uint64_t offset) noexcept;

}  // namespace reshardfs
