// SPDX-License-Identifier: Apache-2.0
#include "fuse/wake_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "reshardfs/error.h"

namespace reshardfs {

WakePipe::WakePipe() {
  if (::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw io_error("make a pipe", "", errno);
  }
}

WakePipe::~WakePipe() {
  ::close(ends_[0]);
  ::close(ends_[1]);
}

void WakePipe::post(Event event) const noexcept {
  const char byte = static_cast<char>(event);
  while (::write(ends_[1], &byte, 1) < 0 && errno == EINTR) {
  }
}

Event WakePipe::wait() const {
  for (;;) {
    if (const auto event = wait_for(std::chrono::milliseconds(-1))) return *event;
  }
}

std::optional<Event> WakePipe::wait_for(std::chrono::milliseconds timeout) const {
  pollfd poll_fd{.fd = ends_[0], .events = POLLIN, .revents = 0};
  if (::poll(&poll_fd, 1, static_cast<int>(timeout.count())) <= 0) return {};
  char byte = 0;
  if (::read(ends_[0], &byte, 1) != 1) return {};
  return static_cast<Event>(byte);
}

}  // namespace reshardfs
