// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "base/process/failure_log.h"
#include "fuse/buffer_pool.h"
#include "fuse/channel.h"
#include "fuse/mounting/mount_options.h"
#include "fuse/mounting/passthrough.h"
#include "fuse/open_file.h"
#include "fuse/opening_table.h"
#include "fuse/queue/storage_queue.h"
#include "vfs/open_handles.h"
#include "vfs/refresher.h"
#include "vfs/tree_source.h"

namespace reshardfs {

/// The largest request that is agreed on with the kernel, bytes. With larger pages it may count
/// otherwise: there is some slack before a request is taken for nonsense.
inline constexpr std::size_t kRequestBytes = std::size_t{1} << 20;
inline constexpr std::size_t kAbsurdBytes = 16 * kRequestBytes;

/// Threads of a mount beside those that do what may wait: they answer from memory, and so each is
/// soon back. More of them would only share the processors.
inline constexpr unsigned kMemoryThreads = 8;
/// The most threads of a mount, whatever it reads from.
inline constexpr unsigned kMaxThreads = [] {
  unsigned threads = kMemoryThreads;
  for (const WaitLimits& limits : kWaitLimits) threads += limits.permits + limits.late;
  return threads;
}();

/// What the operations work on: the user data of a FUSE session.
class ServedTree {
 public:
  /// @param looks when the source is looked at.
  ServedTree(TreeSource& source, const MountOptions& options, Refresher::Limits looks = {});
  ServedTree(const ServedTree&) = delete;
  ServedTree& operator=(const ServedTree&) = delete;
  ~ServedTree() = default;

  TreeSource& source;
  const MountOptions& options;
  /// Before all that answers.
  Channel channel;
  FailureLog failures;
  BufferPool buffers;
  /// All openings: of this process alone, or those that MountHandover shares.
  OpeningTable own_openings{std::span<OpeningTable::Entry>()};
  OpeningTable* openings = &own_openings;
  /// Of a process before this one, a file comes here with its first read.
  OpenHandles<OpenFile> files;
  /// The generations that listings of directories that change are of.
  OpenHandles<Tree> listings;
  Passthrough passthrough;
  /// Without a thread if the source does not change.
  Refresher refresher;
  /// To be stopped before the session is destroyed.
  StorageQueue storage;
  /// Set when INIT has come; its answer is on the way when the operation returns.
  std::atomic<bool> initialised = false;
};

}  // namespace reshardfs
