// SPDX-License-Identifier: Apache-2.0
/// What serve() makes of a tree, on a socket instead of /dev/fuse: the session, its operations,
/// schedulers and threads are the product's.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/process/signal_guard.h"
#include "daemon/serve.h"
#include "fuse/served_tree.h"
#include "fuse/session.h"
#include "fuse/wake_pipe.h"
#include "fuse/worker_threads.h"
#include "protocol/fake_kernel.h"
#include "vfs/tree_source.h"

namespace reshardfs::testing_protocol {

/// One at a time in a process, for the sake of its signal handlers.
class ProtocolSession {
 public:
  /// INIT has not been sent. The source must outlive this.
  explicit ProtocolSession(TreeSource& source, MountOptions options = {});
  ProtocolSession(const ProtocolSession&) = delete;
  ProtocolSession& operator=(const ProtocolSession&) = delete;
  /// Reads that are stalled must be let go before.
  ~ProtocolSession();

  FakeKernel& kernel() noexcept { return *kernel_; }
  /// Sends INIT. @throws std::runtime_error if it is refused.
  void init();
  /// What serve() would be told next; kEnded if a thread has ended.
  std::optional<Event> next_event(Milliseconds limit = kPatience) const {
    return events_.wait_for(limit);
  }
  /// Ends the threads. @return whether all have ended.
  bool stop(Milliseconds limit = kPatience);
  /// Of the threads, after stop(): an errno, or 0.
  int error() const noexcept { return workers_->error(); }
  const ServedTree& served() const noexcept { return served_; }

 private:
  const MountOptions options_;
  const WakePipe events_;
  const SignalGuard signals_;
  ServedTree served_;
  Session session_;
  std::unique_ptr<FakeKernel> kernel_;
  std::unique_ptr<WorkerThreads> workers_;
};

/// Threads of this process.
std::size_t thread_count();

}  // namespace reshardfs::testing_protocol
