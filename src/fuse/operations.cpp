// SPDX-License-Identifier: Apache-2.0
#include "fuse/operations.h"

#include <cerrno>

#include "fuse/attributes.h"
#include "fuse/event_log.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

/// Everything that would change something. The kernel refuses it for a read-only mount before it
/// gets here; but root may remount it writable.
template <typename... Arguments>
void refuse(fuse_req_t request, Arguments...) {
  fuse_reply_err(request, EROFS);
}

fuse_lowlevel_ops make_operations() {
  fuse_lowlevel_ops all{};
  all.init = ops::init;
  all.statfs = ops::statfs;
  all.lookup = ops::lookup;
  all.getattr = ops::getattr;
  all.readlink = ops::readlink;
  all.opendir = ops::opendir;
  all.readdir = ops::readdir;
  all.readdirplus = ops::readdirplus;
  all.releasedir = ops::releasedir;
  all.open = ops::open;
  all.release = ops::release;
  all.read = ops::read;
  all.getxattr = ops::getxattr;
  all.listxattr = ops::listxattr;
  all.setattr = refuse;
  all.mknod = refuse;
  all.mkdir = refuse;
  all.unlink = refuse;
  all.rmdir = refuse;
  all.symlink = refuse;
  all.rename = refuse;
  all.link = refuse;
  all.write = refuse;
  all.setxattr = refuse;
  all.removexattr = refuse;
  all.create = refuse;
  all.fallocate = refuse;
  return all;
}

void log_line(const std::string& line) {
  write_log(LogLevel::kError, "{}", fmt::make_format_args(line));
}

}  // namespace

void ops::init(void* served, fuse_conn_info* connection) noexcept {
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
  // Read-aheads that wait for a stalled source count; when they reach this number, the kernel lets
  // no other file be read ahead: so what must wait waits here.
  connection->max_background = 4096;
  connection->congestion_threshold = 3072;
  auto& all = *static_cast<ServedTree*>(served);
  all.passthrough.on = all.options.passthrough && want_passthrough(*connection);
  all.initialised = true;
}

void ops::statfs(fuse_req_t request, fuse_ino_t) noexcept {
  answer(request, kRootInode, "statfs",
         [&] { return Reply::statistics(statistics(*served(request).source.current())); });
}

ServedTree::ServedTree(TreeSource& tree_source, const MountOptions& mount_options,
                       Refresher::Limits looks)
    : source(tree_source),
      options(mount_options),
      failures(log_line),
      refresher([this] { return source.refresh(); }, looks) {}

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops all = make_operations();
  return all;
}

}  // namespace reshardfs
