// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "daemon/handover/handover.h"
#include "daemon/handover/memory_record.h"
#include "daemon/handover/successor.h"
#include "fuse/kernel_caches.h"
#include "fuse/served_tree.h"
#include "fuse/session.h"
#include "fuse/wake_pipe.h"
#include "fuse/worker_threads.h"

namespace reshardfs {

/// What came with a mount that was taken over, and goes to the next process with it.
struct InheritedDescriptors {
  Descriptor connection{-1};  ///< as HandoverOptions::connection
  /// The connection to the keeper of the mount, if there is no HandoverOptions::keeper. It stays
  /// open so that the keeper knows that the mount is served.
  Descriptor keeper{-1};
};

/// Makes the session go on with the mount of HandoverOptions::takeover.
/// @return the requests that must be answered again.
/// @throws Error kUnsupported if the kernel was promised what this program does not keep, kIo if
///         the other process goes on with the mount, or a tree that is not kept has openings. Then
///         nothing has happened to it.
std::vector<std::string> go_on_with_mount(Session& session, ServedTree& served,
                                          const HandoverOptions& options,
                                          InheritedDescriptors& inherited);

/// Hands a process's mount over to another process. Only the thread that called serve() may use it.
class MountHandover {
 public:
  /// All arguments must outlive it.
  MountHandover(const HandoverOptions& options, const InheritedDescriptors& inherited,
                Session& session, ServedTree& served, WorkerThreads& workers,
                const WakePipe& events);
  MountHandover(const MountHandover&) = delete;
  MountHandover& operator=(const MountHandover&) = delete;
  ~MountHandover() = default;

  /// The mount is live: notes what another process must know, has it kept if there is a keeper, and
  /// begins to tell the kernel what has changed.
  void begin() noexcept;
  /// Event::kReload, or Event::kReplace. One that comes before begin(), or while an attempt is
  /// under way, waits, also for the process that has the mount then. What fails is logged, and
  /// shown in the status.
  void ask(bool replace) noexcept;
  /// Event::kToldKernel.
  void told_kernel() noexcept;
  /// Event::kSuccessor: hands the mount over, if the other process is ready.
  /// @return whether that process serves it.
  bool give() noexcept;
  /// The process that has the mount; none: this one has.
  std::optional<pid_t> successor() const noexcept;
  /// Before the end. @return whether nothing of this is under way any more.
  bool stop(std::chrono::milliseconds limit) noexcept { return caches_.stop(limit); }
  /// Lets the other process know that this one is done.
  void finish() noexcept { successor_.reset(); }

 private:
  void note_mount() noexcept;
  void start_waiting() noexcept;
  void cannot_be_handed_over(const std::exception& why);
  void save_tree();
  void tell_kernel();
  void keep_state();
  void require_possible() const;
  bool try_to_give();
  MemoryRecord texts() const;
  void refused(const std::string& why) noexcept;

  const HandoverOptions& options_;
  const InheritedDescriptors& inherited_;
  Session& session_;
  ServedTree& served_;
  WorkerThreads& workers_;
  const WakePipe& events_;
  HandoverState state_;
  std::optional<MemoryRecord> own_record_;
  MemoryRecord* record_ =
      nullptr;  ///< the mount's, which may be of another process; none: no memory
  std::optional<OpeningTable> own_openings_;
  KernelCaches caches_;
  std::optional<Successor> successor_;
  std::optional<bool> asked_early_;  ///< ask() before begin(), and whether to replace
  bool begun_ = false;
  bool given_ = false;
};

}  // namespace reshardfs
