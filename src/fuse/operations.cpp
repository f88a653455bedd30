// SPDX-License-Identifier: Apache-2.0
#include "fuse/operations.h"

#include <fcntl.h>

#include <cerrno>

#include "base/counters.h"
#include "fuse/attributes.h"
#include "fuse/directory_operations.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

// --- session -----------------------------------------------------------------------------------

void init(void* userdata, fuse_conn_info* connection) {
  constexpr unsigned kRequestBytes = 1U << 20;
  constexpr unsigned kWanted =
      FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS;
  // Splicing is slower here, and a spliced source that has shrunk ends a read without an error.
  // With adaptive readdirplus, "ls" would leave every "stat" after it to a request of its own.
  constexpr unsigned kUnwanted = FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                                 FUSE_CAP_SPLICE_MOVE | FUSE_CAP_READDIRPLUS_AUTO;
  connection->want |= connection->capable & kWanted;
  connection->want &= ~kUnwanted;
  // The kernel takes the limit of its requests, reads too, from the size of a write.
  connection->max_write = kRequestBytes;
  connection->max_background = 64;
  connection->congestion_threshold = 48;
  static_cast<ServedTree*>(userdata)->initialised = true;
}

void statfs(fuse_req_t request, fuse_ino_t) {
  answer(request, kRootInode, "statfs", [&] {
    const struct statvfs statvfs = statistics(*current_tree(request));
    fuse_reply_statfs(request, &statvfs);
  });
}

// --- attributes --------------------------------------------------------------------------------

void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
  counters().request(Operation::kGetattr);
  answer(request, inode, "getattr", [&] {
    const TreePtr tree = current_tree(request);
    const Node* node = find_or_answer(request, *tree, inode);
    if (node == nullptr) return;
    const struct stat stat = attributes(*node, served(request).options);
    fuse_reply_attr(request, &stat, node_seconds(*node));
  });
}

// --- files -------------------------------------------------------------------------------------

void end_opening(ServedTree& all, fuse_ino_t inode, std::uint64_t snapshot) noexcept {
  all.snapshots.remove(snapshot);
  all.source.file_closed(inode);
}

void open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  counters().request(Operation::kOpen);
  answer(request, inode, "open", [&] {
    const TreePtr tree = current_tree(request);
    const Node* node = find_or_answer(request, *tree, inode);
    if (node == nullptr) return;
    if (node->file == nullptr) {
      fuse_reply_err(request, EISDIR);
      return;
    }
    if ((info->flags & O_ACCMODE) != O_RDONLY || (info->flags & O_TRUNC) != 0) {
      fuse_reply_err(request, EROFS);
      return;
    }
    ServedTree& all = served(request);
    info->fh = all.snapshots.add(node->file->snapshot());
    if (!all.source.file_opened(inode)) {
      all.snapshots.remove(info->fh);
      fuse_reply_err(request, ESTALE);
      return;
    }
    // A file with changing contents has size 0, beyond which the kernel's page cache would not
    // read.
    const bool direct_io = all.options.direct_io || info->fh != OpenSnapshots::kNone;
    info->direct_io = direct_io ? 1 : 0;
    info->keep_cache = direct_io ? 0 : 1;
    // Refused if the program has been killed meanwhile; then there will be no release.
    if (fuse_reply_open(request, info) != 0) end_opening(all, inode, info->fh);
  });
}

void release(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  end_opening(served(request), inode, info->fh);
  fuse_reply_err(request, 0);
}

/// @return 0 or an errno. The source tells of its problems itself.
int open_directory(TreeSource& source, InodeNumber inode) noexcept {
  try {
    source.open_directory(inode);
    return 0;
  } catch (...) {
    return errno_of_current_exception();
  }
}

/// Everything that would change something. The kernel refuses it for a read-only mount before it
/// gets here; but root may remount it writable.
template <typename... Arguments>
void refuse(fuse_req_t request, Arguments...) {
  fuse_reply_err(request, EROFS);
}

fuse_lowlevel_ops make_operations() {
  // forget, flush, ioctl and the like are left out: libfuse answers them as it should be where
  // there is no state to keep.
  fuse_lowlevel_ops ops{};
  add_directory_operations(ops);
  add_read_operations(ops);
  ops.init = init;
  ops.statfs = statfs;
  ops.getattr = getattr;
  ops.open = open;
  ops.release = release;
  ops.setattr = refuse;
  ops.mknod = refuse;
  ops.mkdir = refuse;
  ops.unlink = refuse;
  ops.rmdir = refuse;
  ops.symlink = refuse;
  ops.rename = refuse;
  ops.link = refuse;
  ops.write = refuse;
  ops.setxattr = refuse;
  ops.removexattr = refuse;
  ops.create = refuse;
  ops.fallocate = refuse;
  return ops;
}

}  // namespace

ServedTree::ServedTree(TreeSource& tree_source, const MountOptions& mount_options)
    : source(tree_source),
      options(mount_options),
      reads(kReadPermits, [this](const ReadRequest& read) { run_read(*this, read); }),
      cheap_attributes(kAttributePermits,
                       [this](const auto& query) { run_getxattr(*this, query); }),
      costly_attributes(kAttributePermits,
                        [this](const auto& query) { run_getxattr(*this, query); }),
      opener(kOpenPermits, [this](InodeNumber inode) { return open_directory(source, inode); }),
      refresher([this] { source.refresh(); }, {}) {}

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops ops = make_operations();
  return ops;
}

}  // namespace reshardfs
