// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <chrono>
#include <optional>

#include "base/posix/descriptor.h"
#include "base/posix/poll_until.h"

namespace reshardfs {

/// What the thread that supervises a mount waits for.
enum class Event : char {
  kLive = 'L',        ///< the kernel's INIT request has been answered
  kEnded = 'E',       ///< a worker has left its loop: unmounted, aborted or failed
  kSignal = 'S',      ///< SIGINT, SIGTERM, SIGHUP, or the caller has gone: end the mount
  kHangup = 'H',      ///< SIGHUP, where it has another meaning
  kReload = 'R',      ///< SIGUSR2: let another process take the mount over
  kReplace = 'P',     ///< the same, to show another tree in the place of this one
  kStall = 'W',       ///< StorageQueue::stall() has news
  kToldKernel = 'T',  ///< the kernel knows what has changed
  kSuccessor = 'N',   ///< that process is ready to, or has failed
  kChild = 'C',       ///< SIGCHLD, where it is waited for
};

/// Events for one waiting thread. A pipe, because signal handlers may write to it.
class WakePipe {
 public:
  /// @throws Error kIo
  WakePipe() = default;
  WakePipe(const WakePipe&) = delete;
  WakePipe& operator=(const WakePipe&) = delete;
  ~WakePipe() = default;

  /// Never blocks; if the pipe is full the event is lost among others like it.
  void post(Event event) const noexcept;
  /// The next event.
  Event wait() const;
  /// The next event, or nothing after `timeout`.
  std::optional<Event> wait_for(std::chrono::milliseconds timeout) const;
  /// The end to wait at, where other things are waited for, too.
  int read_end() const noexcept { return pipe_.reader.get(); }
  /// The end to write to, for a signal handler.
  int write_end() const noexcept { return pipe_.writer.get(); }

 private:
  std::optional<Event> wait_until(PollClock::time_point deadline) const;

  const Pipe pipe_{O_NONBLOCK};
};

}  // namespace reshardfs
