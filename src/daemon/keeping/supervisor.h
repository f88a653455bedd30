// SPDX-License-Identifier: Apache-2.0
/// A small process that keeps a mount's descriptors, and starts another process where the one that
/// serves the mount has crashed.
#pragma once

#include <functional>
#include <string>

#include "daemon/handover/handover_options.h"
#include "fuse/wake_pipe.h"

namespace reshardfs {

struct SupervisorOptions {
  /// What is started after a crash.
  ProgramStart start{};
  /// Crashes within a minute that the mount survives.
  unsigned crash_limit = 5;
  /// Called when the mount is live, before the process that serves it goes on. Must not throw.
  std::function<void()> on_live{};
};

/// Runs `first` in a child process, and waits until no process serves the mount any more: it was
/// unmounted, ended by a signal, or could not be resumed after a crash; in the last case it is
/// unmounted. Call this while the process has one thread. SIGINT, SIGTERM, SIGHUP and SIGUSR2 are
/// passed on; after a crash, the last two go to the process that resumes the mount as soon as it
/// does.
/// @param first returns an exit code, and must not throw. Its argument is for SupervisedKeeper.
/// @return in this process alone: the exit code of the last one that has served it.
int supervise_mount(const SupervisorOptions& options,
                    const std::function<int(Descriptor connection)>& first);

/// For a process that has handed over its mount while its caller waits for its end: waits until all
/// processes that serve the mount have ended.
/// @param events of the process's SignalGuard; what has come already is passed on, too.
/// @return the exit code of the last one.
int wait_for_successors(const WakePipe& events) noexcept;

/// In the process that a supervisor has started.
class SupervisedKeeper final : public MountKeeper {
 public:
  explicit SupervisedKeeper(Descriptor connection) noexcept : connection_(std::move(connection)) {}

  void keep(int fuse, int requests, int state) noexcept override;
  void release() noexcept override;
  void take_connection(Descriptor connection) noexcept override;
  int connection() const noexcept override { return connection_.get(); }

 private:
  Descriptor connection_;
};

}  // namespace reshardfs
