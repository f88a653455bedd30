// SPDX-License-Identifier: Apache-2.0
#include "fuse/wake_pipe.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace reshardfs {

void WakePipe::post(Event event) const noexcept {
  const char byte = static_cast<char>(event);
  while (::write(pipe_.writer.get(), &byte, 1) < 0 && errno == EINTR) {
  }
}

Event WakePipe::wait() const {
  for (;;) {
    if (const auto event = wait_for(std::chrono::milliseconds(-1))) return *event;
  }
}

std::optional<Event> WakePipe::wait_for(std::chrono::milliseconds timeout) const {
  pollfd poll_fd{.fd = pipe_.reader.get(), .events = POLLIN, .revents = 0};
  if (::poll(&poll_fd, 1, static_cast<int>(timeout.count())) <= 0) return {};
  char byte = 0;
  if (::read(pipe_.reader.get(), &byte, 1) != 1) return {};
  return static_cast<Event>(byte);
}

}  // namespace reshardfs
