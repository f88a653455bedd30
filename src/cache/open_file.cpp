// SPDX-License-Identifier: Apache-2.0
#include "cache/open_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace reshardfs {

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<struct stat> OpenFile::status() const noexcept {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return std::nullopt;
  return status;
}

OpenFile open_file(int directory, const char* name, int flags, mode_t mode) noexcept {
  constexpr int kAlways = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  return OpenFile(::openat(directory, name, flags | kAlways, mode));
}

int read_fully(int file, std::span<iovec> buffers, std::uint64_t offset) noexcept {
  while (!buffers.empty()) {
    const ssize_t got = ::preadv(file, buffers.data(), static_cast<int>(buffers.size()),
                                 static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    auto left = static_cast<std::size_t>(got);
    offset += left;
    const bool ended = got == 0;
    while (!buffers.empty() && left >= buffers.front().iov_len) {
      left -= buffers.front().iov_len;
      buffers = buffers.subspan(1);
    }
    if (buffers.empty()) return 0;
    if (ended) return EBADMSG;
    iovec& first = buffers.front();
    first.iov_base = static_cast<std::byte*>(first.iov_base) + left;
    first.iov_len -= left;
  }
  return 0;
}

int write_fully(int file, std::span<const std::byte> bytes, std::uint64_t offset) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace reshardfs
