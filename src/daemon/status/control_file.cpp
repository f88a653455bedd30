// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/control_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace reshardfs {
namespace {

/// More than any mount has to say; what calls itself one may have no end.
constexpr std::size_t kMostBytes = std::size_t{16} << 20U;

/// Another file system mounted under this name may contain links or a pipe.
/// @return a descriptor, or -1 with errno.
int open_control_file(const std::filesystem::path& mountpoint, const char* name) {
  constexpr int kNoLink = O_NOFOLLOW | O_CLOEXEC;
  // O_PATH: to open a directory for reading would be a request that a mount's source has to answer.
  const int directory = ::open((mountpoint / ".reshardfs").c_str(), O_PATH | O_DIRECTORY | kNoLink);
  if (directory < 0) return -1;
  const int file = ::openat(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | kNoLink);
  const int failed = errno;
  ::close(directory);
  errno = failed;
  return file;
}

TaskResult read_once(const std::filesystem::path& mountpoint, const char* name) {
  const int file = open_control_file(mountpoint, name);
  if (file < 0) return {errno, ""};
  TaskResult result;
  // Its size is unknown before it is read.
  std::array<char, 16 << 10> buffer{};
  while (result.text.size() <= kMostBytes) {
    const ssize_t count = ::read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) result.error = errno;
    if (count <= 0) break;
    result.text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (result.text.size() > kMostBytes) result = {EFBIG, ""};
  ::close(file);
  return result;
}

}  // namespace

TaskResult read_control_file(const std::filesystem::path& mountpoint, const char* name) {
  constexpr int kMostTries = 10;
  TaskResult result = read_once(mountpoint, name);
  // What was opened of a process that has crashed since is not of the one that goes on.
  for (int tries = 1; result.error == ESTALE && tries < kMostTries; ++tries) {
    result = read_once(mountpoint, name);
  }
  return result;
}

}  // namespace reshardfs
