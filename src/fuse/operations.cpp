// SPDX-License-Identifier: Apache-2.0
#include "fuse/operations.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

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
  answer(request, inode, "getattr", [&] {
    const TreePtr tree = current_tree(request);
    const Node* node = find_or_answer(request, *tree, inode);
    if (node == nullptr) return;
    const struct stat stat = attributes(*node, served(request).options);
    fuse_reply_attr(request, &stat, node_seconds(*node));
  });
}

void getxattr(fuse_req_t request, fuse_ino_t, const char*, std::size_t) {
  fuse_reply_err(request, ENODATA);
}

void listxattr(fuse_req_t request, fuse_ino_t, std::size_t size) {
  if (size == 0) {
    fuse_reply_xattr(request, 0);
  } else {
    fuse_reply_buf(request, nullptr, 0);
  }
}

// --- files -------------------------------------------------------------------------------------

void open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
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
    TreeSource& source = served(request).source;
    if (!source.file_opened(inode)) {
      fuse_reply_err(request, ESTALE);
      return;
    }
    const bool direct_io = served(request).options.direct_io;
    info->direct_io = direct_io ? 1 : 0;
    info->keep_cache = direct_io ? 0 : 1;
    // Refused if the program has been killed meanwhile; then there will be no release.
    if (fuse_reply_open(request, info) != 0) source.file_closed(inode);
  });
}

void release(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
  served(request).source.file_closed(inode);
  fuse_reply_err(request, 0);
}

/// Either all bytes that the file has in the range, or an error: the kernel would take fewer for
/// the end of the file and shrink it.
void reply_with_bytes(fuse_req_t request, const ReadRequest& read) {
  const TreePtr tree = current_tree(request);
  const Node* node = find_or_answer(request, *tree, read.inode);
  if (node == nullptr) return;
  if (node->file == nullptr) {
    fuse_reply_err(request, EISDIR);
    return;
  }
  if (read.offset >= node->size) {
    fuse_reply_buf(request, nullptr, 0);
    return;
  }
  const std::uint64_t size = std::min<std::uint64_t>(read.size, node->size - read.offset);
  const BufferPool::Lease lease = served(request).buffers.take(size);
  node->file->read_at(read.offset, lease.bytes());
  fuse_reply_buf(request, reinterpret_cast<const char*>(lease.bytes().data()), size);
}

/// Whether it waited for a permit for so long that its program was killed meanwhile. A signal that
/// a program handles looks the same from here, and few expect EINTR from a file: so a read that
/// did not have to wait is answered whatever happened.
bool is_unwanted(const ReadRequest& read) {
  constexpr std::chrono::milliseconds kPatience{100};
  return std::chrono::steady_clock::now() - read.arrived > kPatience &&
         fuse_req_interrupted(read.request) != 0;
}

void run_read(const ReadRequest& read) noexcept {
  fuse_req_t request = read.request;
  answer(request, read.inode, "read", [&] {
    if (is_unwanted(read)) {
      fuse_reply_err(request, EINTR);
      return;
    }
    reply_with_bytes(request, read);
  });
}

void read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset, fuse_file_info*) {
  answer(request, inode, "read", [&] {
    served(request).reads.submit(ReadRequest{.request = request,
                                             .inode = inode,
                                             .offset = static_cast<std::uint64_t>(offset),
                                             .size = size,
                                             .arrived = std::chrono::steady_clock::now()});
  });
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
  ops.init = init;
  ops.statfs = statfs;
  ops.getattr = getattr;
  ops.getxattr = getxattr;
  ops.listxattr = listxattr;
  ops.open = open;
  ops.release = release;
  ops.read = read;
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
      reads(kReadPermits, run_read),
      opener(kOpenPermits, [this](InodeNumber inode) { return open_directory(source, inode); }),
      refresher([this] { source.refresh(); }, {}) {}

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops ops = make_operations();
  return ops;
}

}  // namespace reshardfs
