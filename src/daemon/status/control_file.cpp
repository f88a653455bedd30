// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/control_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstddef>

#include "base/posix/descriptor.h"
#include "base/posix/read_write.h"

namespace reshardfs {
namespace {

/// More than any mount has to say; what calls itself one may have no end.
constexpr std::size_t kMostBytes = std::size_t{16} << 20U;

/// Another file system mounted under this name may contain links or a pipe.
/// @return none, with errno, if it cannot be opened.
Descriptor open_control_file(const std::filesystem::path& mountpoint, const char* name) {
  // O_PATH: to open a directory for reading would be a request that a mount's source has to answer.
  const Descriptor directory =
      open_in(AT_FDCWD, (mountpoint / ".reshardfs").c_str(), O_PATH | O_DIRECTORY);
  return directory ? open_in(directory.get(), name, O_RDONLY) : Descriptor();
}

TaskResult read_once(const std::filesystem::path& mountpoint, const char* name) {
  const Descriptor file = open_control_file(mountpoint, name);
  if (!file) return {errno, ""};
  TaskResult result;
  result.error = read_to_end(file.get(), result.text, kMostBytes + 1);
  if (result.text.size() > kMostBytes) result = {EFBIG, ""};
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
