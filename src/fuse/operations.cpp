// SPDX-License-Identifier: Apache-2.0
#include "fuse/operations.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "reshardfs/error.h"

#include "fuse/attributes.h"
#include "fuse/errno_mapping.h"

namespace reshardfs {
namespace {

/// The tree never changes, so the kernel may keep what it knows of it.
constexpr double kCacheSeconds = 24.0 * 60 * 60;
constexpr std::size_t kNameBytes = 255;

ServedTree& served(fuse_req_t request) {
  return *static_cast<ServedTree*>(fuse_req_userdata(request));
}

std::string text_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

void log_failure(fuse_req_t request, fuse_ino_t inode, const char* operation) noexcept {
  try {
    spdlog::error("{} of '/{}': {}", operation, printable(served(request).tree.path(inode)),
                  text_of_current_exception());
  } catch (...) {
    // No memory for a message: the program that asked still gets its errno.
  }
}

/// Runs `reply`, which answers the request as its last act, or throws before; then the request is
/// answered with an errno. So every request gets exactly one answer.
template <typename Reply>
void answer(fuse_req_t request, fuse_ino_t inode, const char* operation, Reply&& reply) noexcept {
  int error = EIO;
  try {
    std::forward<Reply>(reply)();
    return;
  } catch (...) {
    error = errno_of_current_exception();
    log_failure(request, inode, operation);
  }
  fuse_reply_err(request, error);
}

const Node& find(fuse_req_t request, fuse_ino_t inode) {
  const Node* node = served(request).tree.find(inode);
  if (node == nullptr) {
    throw Error(ErrorKind::kMissing, "no node has the number " + std::to_string(inode));
  }
  return *node;
}

fuse_entry_param entry_of(fuse_req_t request, const Node& node) noexcept {
  fuse_entry_param entry{};
  entry.ino = node.inode;
  entry.generation = 1;
  entry.attr = attributes(node, served(request).options);
  entry.attr_timeout = kCacheSeconds;
  entry.entry_timeout = kCacheSeconds;
  return entry;
}

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
  const struct statvfs answer = statistics(served(request).tree);
  fuse_reply_statfs(request, &answer);
}

// --- names and attributes ----------------------------------------------------------------------

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (std::strlen(name) > kNameBytes) {
    fuse_reply_err(request, ENAMETOOLONG);
    return;
  }
  const Node* node = served(request).tree.lookup(parent, name);
  // Number 0: there is no such name, and the kernel may remember that too.
  const fuse_entry_param nothing{
      .ino = 0, .generation = 0, .attr = {}, .attr_timeout = 0, .entry_timeout = kCacheSeconds};
  const fuse_entry_param entry = node != nullptr ? entry_of(request, *node) : nothing;
  fuse_reply_entry(request, &entry);
}

void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
  answer(request, inode, "getattr", [&] {
    const struct stat stat = attributes(find(request, inode), served(request).options);
    fuse_reply_attr(request, &stat, kCacheSeconds);
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

// --- directories -------------------------------------------------------------------------------

void opendir(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  answer(request, inode, "opendir", [&] {
    if (!find(request, inode).is_directory()) {
      fuse_reply_err(request, ENOTDIR);
      return;
    }
    info->fh = inode;
    info->cache_readdir = 1;
    info->keep_cache = 1;
    fuse_reply_open(request, info);
  });
}

/// Collects directory entries in the kernel's format, with or without attributes.
class Listing {
 public:
  Listing(fuse_req_t request, std::size_t size, bool with_attributes)
      : request_(request), buffer_(size), with_attributes_(with_attributes) {}

  /// @param next the position after this entry.
  /// @return whether it found room.
  bool add(const char* name, const fuse_entry_param& entry, std::size_t next) {
    const std::span<char> room = std::span(buffer_).subspan(used_);
    const auto position = static_cast<off_t>(next);
    const std::size_t needed =
        with_attributes_
            ? fuse_add_direntry_plus(request_, room.data(), room.size(), name, &entry, position)
            : fuse_add_direntry(request_, room.data(), room.size(), name, &entry.attr, position);
    if (needed > room.size()) return false;
    used_ += needed;
    return true;
  }

  void reply() { fuse_reply_buf(request_, buffer_.data(), used_); }

 private:
  fuse_req_t request_;
  std::vector<char> buffer_;
  std::size_t used_ = 0;
  bool with_attributes_;
};

/// Positions: 0 is ".", 1 is "..", 2 + i is the i-th child. Hidden children have one, too, so that
/// a position means the same entry in every listing.
void list(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset, bool plus) {
  constexpr std::size_t kDots = 2;
  const Node& directory = find(request, inode);
  Listing listing(request, size, plus);
  const std::size_t end = kDots + directory.children.size();
  for (auto at = static_cast<std::size_t>(offset); at < end; ++at) {
    const bool dots = at < kDots;
    const Node& node = at == 0   ? directory
                       : at == 1 ? find(request, directory.parent)
                                 : find(request, directory.children[at - kDots]);
    if (!dots && node.hidden) continue;
    fuse_entry_param entry = entry_of(request, node);
    if (dots) entry.ino = 0;  // no lookup of "." and "..": the kernel has these nodes
    const char* name = at == 0 ? "." : at == 1 ? ".." : node.name.c_str();
    if (!listing.add(name, entry, at + 1)) break;
  }
  listing.reply();
}

void readdir(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
             fuse_file_info*) {
  answer(request, inode, "readdir", [&] { list(request, inode, size, offset, false); });
}

void readdirplus(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
                 fuse_file_info*) {
  answer(request, inode, "readdir", [&] { list(request, inode, size, offset, true); });
}

// --- files -------------------------------------------------------------------------------------

void open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  answer(request, inode, "open", [&] {
    if (find(request, inode).is_directory()) {
      fuse_reply_err(request, EISDIR);
      return;
    }
    if ((info->flags & O_ACCMODE) != O_RDONLY || (info->flags & O_TRUNC) != 0) {
      fuse_reply_err(request, EROFS);
      return;
    }
    const bool direct_io = served(request).options.direct_io;
    info->fh = inode;
    info->direct_io = direct_io ? 1 : 0;
    info->keep_cache = direct_io ? 0 : 1;
    fuse_reply_open(request, info);
  });
}

/// Either all bytes that the file has in the range, or an error: the kernel would take fewer for
/// the end of the file and shrink it.
void reply_with_bytes(fuse_req_t request, const ReadRequest& read) {
  const Node& node = find(request, read.inode);
  if (node.is_directory()) {
    fuse_reply_err(request, EISDIR);
    return;
  }
  if (read.offset >= node.size) {
    fuse_reply_buf(request, nullptr, 0);
    return;
  }
  const std::uint64_t size = std::min<std::uint64_t>(read.size, node.size - read.offset);
  const BufferPool::Lease lease = served(request).buffers.take(size);
  node.file->read_at(read.offset, lease.bytes());
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

/// Everything that would change something. The kernel refuses it for a read-only mount before it
/// gets here; but root may remount it writable.
template <typename... Arguments>
void refuse(fuse_req_t request, Arguments...) {
  fuse_reply_err(request, EROFS);
}

fuse_lowlevel_ops make_operations() {
  // forget, release, flush, ioctl and the like are left out: libfuse answers them as it should be
  // where there is no state to keep.
  fuse_lowlevel_ops ops{};
  ops.init = init;
  ops.statfs = statfs;
  ops.lookup = lookup;
  ops.getattr = getattr;
  ops.getxattr = getxattr;
  ops.listxattr = listxattr;
  ops.opendir = opendir;
  ops.readdir = readdir;
  ops.readdirplus = readdirplus;
  ops.open = open;
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

ServedTree::ServedTree(const Tree& served_tree, const MountOptions& mount_options)
    : tree(served_tree), options(mount_options), reads(kReadPermits, run_read) {}

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops ops = make_operations();
  return ops;
}

}  // namespace reshardfs
