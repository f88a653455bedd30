// SPDX-License-Identifier: Apache-2.0
#include "fuse/open_operations.h"

#include <fcntl.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "base/counters.h"
#include "fuse/operations.h"
#include "fuse/passthrough.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

/// A file that has been opened, but for the answer.
struct Opening {
  InodeNumber inode = 0;
  std::shared_ptr<const VirtualFile> file;
  fuse_file_info info{};
};

void end_opening(ServedTree& all, InodeNumber inode, std::uint64_t snapshot) noexcept {
  all.snapshots.remove(snapshot);
  all.source.file_closed(inode);
}

/// Whether the opening is one of those that `backing` counts: contents that change have no source.
bool may_be_backed(const ServedTree& all, const fuse_file_info& info) noexcept {
  return all.passthrough && info.fh == OpenSnapshots::kNone;
}

/// Answers. For reads that come to this process.
bool reply_open(const ServedTree& all, fuse_req_t request, fuse_file_info& info) noexcept {
  // A file with changing contents has size 0, beyond which the kernel's page cache would not read.
  const bool direct_io = all.options.direct_io || info.fh != OpenSnapshots::kNone;
  info.direct_io = direct_io ? 1 : 0;
  info.keep_cache = direct_io ? 0 : 1;
  // Refused if the program has been killed meanwhile; then there will be no release.
  return fuse_reply_open(request, &info) == 0;
}

/// Answers, when it is known who answers the reads.
void decide_and_reply(ServedTree& all, KillableRequest& waiting, Opening opening) noexcept {
  const auto undo = [&] { end_opening(all, opening.inode, opening.info.fh); };
  std::int32_t number = BackingFiles::kNone;
  try {
    number = all.backing.open(opening.inode, *opening.file);
  } catch (...) {
    const int error = errno_of_current_exception();
    log_failure(all, opening.inode, "open");
    undo();
    if (fuse_req_t request = waiting.claim()) fuse_reply_err(request, error);
    return;
  }
  bool opened = false;
  if (fuse_req_t request = waiting.claim()) {
    if (number == BackingFiles::kNone) {
      opened = reply_open(all, request, opening.info);
    } else {
      read_from_backing_file(opening.info, number);
      opened = fuse_reply_open(request, &opening.info) == 0;
    }
  }
  if (opened) return;
  all.backing.close(opening.inode);
  undo();
}

/// Takes the opening over, or throws, and then the request is as it was.
void open_with_source(ServedTree& all, fuse_req_t request, const Opening& opening) {
  const KillableRequest::Ptr waiting = KillableRequest::watch(request, is_killed, all.kill_watch);
  try {
    all.file_tasks.submit({.inode = opening.inode, .run = [&all, waiting, opening] {
                             decide_and_reply(all, *waiting, opening);
                           }});
  } catch (...) {
    const int error = errno_of_current_exception();
    end_opening(all, opening.inode, opening.info.fh);
    if (fuse_req_t claimed = waiting->claim()) fuse_reply_err(claimed, error);
  }
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
    if (may_be_backed(all, *info)) {
      try {
        open_with_source(all, request, {inode, node->file, *info});
      } catch (...) {
        end_opening(all, inode, info->fh);
        throw;
      }
    } else if (!reply_open(all, request, *info)) {
      end_opening(all, inode, info->fh);
    }
  });
}

/// Reads that the kernel has answered were not checked: at least it is said if they should not have
/// been trusted.
void check_later(ServedTree& all, InodeNumber inode, const ByteSourcePtr& source) noexcept {
  const auto check = [&all, inode, source] {
    try {
      source->check_unchanged();
    } catch (...) {
      log_failure(all, inode, "passthrough");
    }
  };
  try {
    all.file_tasks.submit({.inode = inode, .run = check});
  } catch (...) {
    log_failure(all, inode, "passthrough");
  }
}

void release(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  ServedTree& all = served(request);
  const ByteSourcePtr source = may_be_backed(all, *info) ? all.backing.close(inode) : nullptr;
  end_opening(all, inode, info->fh);
  fuse_reply_err(request, 0);
  if (source) check_later(all, inode, source);
}

}  // namespace

void add_open_operations(fuse_lowlevel_ops& ops) {
  ops.open = open;
  ops.release = release;
}

}  // namespace reshardfs
