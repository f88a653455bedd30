// SPDX-License-Identifier: Apache-2.0
#include "fuse/operations.h"

#include <cerrno>

#include "base/counters.h"
#include "fuse/attributes.h"
#include "fuse/directory_operations.h"
#include "fuse/passthrough.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

// --- session -----------------------------------------------------------------------------------

void init(void* userdata, fuse_conn_info* connection) {
  constexpr unsigned kWanted =
      FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS;
  // Splicing is slower here, and a spliced source that has shrunk ends a read without an error.
  // With adaptive readdirplus, "ls" would leave every "stat" after it to a request of its own.
  constexpr unsigned kUnwanted = FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                                 FUSE_CAP_SPLICE_MOVE | FUSE_CAP_READDIRPLUS_AUTO;
  connection->want |= connection->capable & kWanted;
  connection->want &= ~kUnwanted;
  // The kernel takes the limit of its requests, reads too, from the size of a write.
  connection->max_write = static_cast<unsigned>(kRequestBytes);
  connection->max_background = 64;
  connection->congestion_threshold = 48;
  auto& served = *static_cast<ServedTree*>(userdata);
  served.passthrough = served.options.passthrough && want_passthrough(*connection);
  served.initialised = true;
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

// --- files and directories ----------------------------------------------------------------------

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
  add_open_operations(ops);
  add_read_operations(ops);
  ops.init = init;
  ops.statfs = statfs;
  ops.getattr = getattr;
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
      backing(kernel_backing_files(device)),
      file_tasks(kFileTaskPermits, [](const FileTask& task) { task.run(); }),
      refresher([this] { source.refresh(); }, {}) {}

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops ops = make_operations();
  return ops;
}

}  // namespace reshardfs
