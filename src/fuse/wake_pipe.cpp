// SPDX-License-Identifier: Apache-2.0
#include "fuse/wake_pipe.h"

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
    if (const auto event = wait_until(kForever)) return *event;
  }
}

std::optional<Event> WakePipe::wait_for(std::chrono::milliseconds timeout) const {
  return wait_until(deadline_after(timeout));
}

std::optional<Event> WakePipe::wait_until(PollClock::time_point deadline) const {
  if (!wait_readable(pipe_.reader.get(), deadline)) return {};
  char byte = 0;
  if (::read(pipe_.reader.get(), &byte, 1) != 1) return {};
  return static_cast<Event>(byte);
}

}  // namespace reshardfs
