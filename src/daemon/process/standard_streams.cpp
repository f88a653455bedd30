// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "daemon/process/process_start.h"

namespace reshardfs {
namespace {

std::array<std::atomic<bool>, STDERR_FILENO + 1> unused;

/// A descriptor with the lowest free number. It has to be neither readable nor writable, as the
/// closed one was: what is meant for it must not seem to have arrived.
int open_nothing() noexcept {
  const int fd = ::open("/", O_PATH | O_DIRECTORY);
  return fd >= 0 ? fd : ::open("/dev/null", O_RDONLY);
}

}  // namespace

void occupy_standard_streams() noexcept {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // Those below it are open, so this is its number.
    if (open_nothing() == stream) unused.at(static_cast<std::size_t>(stream)) = true;
  }
}

bool is_unused(int stream) noexcept {
  return stream >= STDIN_FILENO && stream <= STDERR_FILENO &&
         unused.at(static_cast<std::size_t>(stream));
}

}  // namespace reshardfs
