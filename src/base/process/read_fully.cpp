// SPDX-License-Identifier: Apache-2.0
#include "base/process/read_fully.h"

#include <unistd.h>

#include <cerrno>

namespace reshardfs {

std::optional<std::size_t> read_fully(int file, std::uint64_t offset,
                                      std::span<std::byte> out) noexcept {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(file, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace reshardfs
