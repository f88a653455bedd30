// SPDX-License-Identifier: Apache-2.0
#include "base/posix/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "reshardfs/error.h"

namespace reshardfs {

Descriptor::~Descriptor() {
  if (fd_ < 0) return;
  const int kept = errno;
  ::close(fd_);
  errno = kept;
}

std::optional<struct stat> Descriptor::status() const noexcept {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return std::nullopt;
  return status;
}

Descriptor open_in(int directory, const char* name, int flags, mode_t mode) noexcept {
  constexpr int kAlways = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  return Descriptor(::openat(directory, name, flags | kAlways, mode));
}

Pipe::Pipe(int flags) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), flags | O_CLOEXEC) != 0) throw io_error("make a pipe", "", errno);
  reader = Descriptor(ends[0]);
  writer = Descriptor(ends[1]);
}

}  // namespace reshardfs
