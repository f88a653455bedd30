// SPDX-License-Identifier: Apache-2.0
/// The answers to the kernel's requests.
#pragma once

#include <atomic>

#include "fuse/backing_files.h"
#include "fuse/buffer_pool.h"
#include "fuse/directory_opener.h"
#include "fuse/kill_watch.h"
#include "fuse/libfuse.h"
#include "fuse/mount.h"
#include "fuse/open_operations.h"
#include "fuse/read_operations.h"
#include "fuse/request_scheduler.h"
#include "vfs/open_handles.h"
#include "vfs/refresher.h"
#include "vfs/tree_source.h"

namespace reshardfs {

/// The largest request that is agreed on with the kernel, bytes. With larger pages it may count
/// otherwise: there is some slack before a request is taken for nonsense.
inline constexpr std::size_t kRequestBytes = std::size_t{1} << 20;
inline constexpr std::size_t kAbsurdBytes = 16 * kRequestBytes;

/// Reads that may run at once. All permits together must stay below kMaxThreads, so that some
/// threads are always free for what is answered from memory.
inline constexpr unsigned kReadPermits = 16;
/// Extended attributes that may be computed at once: of those that are listed, and again of those
/// that may cost a read of the whole file, so that the ones need not wait for the others.
inline constexpr unsigned kAttributePermits = 4;
/// Pending directories that may be opened at once.
inline constexpr unsigned kOpenPermits = 4;
/// Files that may be looked at at once when they are opened or closed.
inline constexpr unsigned kFileTaskPermits = 4;
inline constexpr unsigned kMaxThreads =
    kReadPermits + 2 * kAttributePermits + kOpenPermits + kFileTaskPermits + 8;

/// What the openings of files with changing contents see.
using OpenSnapshots = OpenHandles<VirtualFile>;
/// The generations that listings of directories that change are of.
using OpenListings = OpenHandles<Tree>;

/// What the operations work on: the user data of a FUSE session.
class ServedTree {
 public:
  ServedTree(TreeSource& source, const MountOptions& options);
  ServedTree(const ServedTree&) = delete;
  ServedTree& operator=(const ServedTree&) = delete;
  ~ServedTree() = default;

  TreeSource& source;
  const MountOptions& options;
  BufferPool buffers;
  RequestScheduler<ReadRequest> reads;
  RequestScheduler<AttributeRequest> cheap_attributes;
  RequestScheduler<AttributeRequest> costly_attributes;
  /// To be stopped before the session is destroyed.
  KillWatch kill_watch;
  OpenSnapshots snapshots;
  OpenListings listings;
  DirectoryOpener opener;
  /// /dev/fuse of the session, which is there before the first request.
  int device = -1;
  /// Whether the kernel may read sources itself. Set with `initialised`.
  std::atomic<bool> passthrough = false;
  BackingFiles backing;
  RequestScheduler<FileTask> file_tasks;
  /// Without a thread if the source does not change.
  Refresher refresher;
  /// Set when INIT has come; its answer is on the way when the operation returns.
  std::atomic<bool> initialised = false;
};

/// For fuse_session_new(), with a ServedTree as user data.
const fuse_lowlevel_ops& operations();

}  // namespace reshardfs
