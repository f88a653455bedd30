// SPDX-License-Identifier: Apache-2.0
#include "base/process/write_all.h"

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace reshardfs {

int write_all(int file, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : ENOSPC;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace reshardfs
