// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/process/counters.h"
#include "fuse/attributes.h"
#include "fuse/mounting/passthrough.h"
#include "fuse/operations.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

using FilePtr = std::shared_ptr<const VirtualFile>;

// --- open --------------------------------------------------------------------------------------

/// A file that has been opened.
struct Opening {
  InodeNumber inode = 0;
  std::uint64_t tree = 0;
  OpeningHandle handle = 0;
  bool backed = false;  ///< counted by Passthrough::files
};

void end(ServedTree& all, const Opening& opening) noexcept {
  if (opening.backed) all.passthrough.files.close(opening.inode);
  if (holds_something(opening.handle)) all.snapshots.remove(opening.handle);
  all.source.closed(opening.tree);
}

/// @param info of the request. @param request its number.
Reply open_file(ServedTree& all, InodeNumber inode, const VirtualFile& file, fuse_file_info info,
                std::uint64_t request) {
  if (!all.source.file_opened(inode)) return Reply::error(ESTALE);
  Opening opening{
      .inode = inode, .tree = all.source.tree_of(inode), .handle = opening_handle(request, false)};
  try {
    if (auto snapshot = file.snapshot()) {
      opening.handle = opening_handle(request, true);
      all.snapshots.add(opening.handle, std::move(snapshot));
    }
    info.fh = opening.handle;
    const bool changes = holds_something(opening.handle);
    // A file with changing contents has size 0, beyond which the kernel's page cache would not
    // read.
    const bool direct_io = all.options.direct_io || changes;
    info.direct_io = direct_io ? 1 : 0;
    info.keep_cache = direct_io ? 0 : 1;
    // Contents that change have no source.
    if (all.passthrough.on && !changes) {
      const std::int32_t number = all.passthrough.files.open(inode, file);
      opening.backed = true;
      if (number != BackingFiles::kNone) read_from_backing_file(info, number);
    }
    return Reply::opened(info, opening.tree, [&all, opening](Reply::Outcome outcome) {
      if (outcome == Reply::Outcome::kNot) return end(all, opening);
      // The source was told of it when this process began.
      if (outcome == Reply::Outcome::kWasOpen) return all.source.closed(opening.tree);
      if (holds_something(opening.handle)) all.snapshots.confirm(opening.handle);
    });
  } catch (...) {
    end(all, opening);
    throw;
  }
}

/// Reads that the kernel has answered were not checked: at least it is said if they should not have
/// been trusted.
void check_later(ServedTree& all, InodeNumber inode, const ByteSourcePtr& source) noexcept {
  // The kernel closes a file for programs that have ended.
  const Asked asked{inode, "passthrough", {}};
  const auto check = [&all, asked, source] {
    const auto look = [&] {
      source->check_unchanged();
      return Reply::error(0);
    };
    return reply_of(all, asked, look);
  };
  try {
    all.storage.submit(nullptr, WaitClass::kFile, 0, check);
  } catch (...) {
    log_failure(all, asked);
  }
}

// --- read --------------------------------------------------------------------------------------

/// One read, up to the file's end.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// @return bytes, or throws what the file throws.
Reply read_file(ServedTree& all, const VirtualFile& file, const Range& range, ReadTally& tally) {
  try {
    if (range.size == 0) return Reply::end_of_file(std::move(tally));
    BufferPool::Lease lease = all.buffers.take(range.size);
    file.read_at(range.offset, lease.bytes());
    return Reply::bytes(std::move(lease), std::move(tally));
  } catch (const StuckRead&) {
    throw;
  } catch (...) {
    tally.failed(errno_of_current_exception());
    throw;
  }
}

}  // namespace

namespace ops {

void open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept {
  counters().request(Operation::kOpen);
  ServedTree& all = served(request);
  const TreePtr tree = all.source.current();
  const Node* node = tree->find(inode);
  if (node == nullptr || node->file == nullptr) {
    fuse_reply_err(request, node == nullptr ? ESTALE : EISDIR);
    return;
  }
  if ((info->flags & O_ACCMODE) != O_RDONLY || (info->flags & O_TRUNC) != 0) {
    fuse_reply_err(request, EROFS);
    return;
  }
  auto open = [&all, inode, file = node->file, handle = *info, number = request_number()] {
    return open_file(all, inode, *file, handle, number);
  };
  if (has_size_to_make(*node)) {
    answer_in_turn(request, inode, "open", WaitClass::kMade, std::move(open));
  } else if (all.passthrough.on && node->file->effort() != Effort::kNone) {
    answer_in_turn(request, inode, "open", WaitClass::kFile, std::move(open));
  } else {
    answer(request, inode, "open", open);
  }
}

void release(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept {
  ServedTree& all = served(request);
  const bool backed = all.passthrough.on && !holds_something(info->fh);
  const ByteSourcePtr source = backed ? all.passthrough.files.close(inode) : nullptr;
  const OpeningHandle handle = info->fh;
  const auto tree = take_opening(request, handle);
  if (tree) end(all, {.inode = inode, .tree = *tree, .handle = handle});
  fuse_reply_err(request, 0);
  if (source) check_later(all, inode, source);
}

void read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
          fuse_file_info* info) noexcept {
  counters().request(Operation::kRead);
  if (size > kAbsurdBytes) {
    fuse_reply_err(request, EINVAL);  // rather than make room for it
    return;
  }
  ServedTree& all = served(request);
  const TreePtr tree = all.source.current();
  const Node* node = tree->find(inode);
  // It is kept with the read: of a killed program the file may be closed before the read has ended.
  const bool holds = holds_something(info->fh);
  FilePtr file = holds ? all.snapshots.find(info->fh) : nullptr;
  // A text that a process held which has crashed is gone; the file as such would have no bytes, as
  // it would for a handle that was never given.
  const bool is_empty = node != nullptr && node->file != nullptr && node->size == 0;
  const bool lost = file == nullptr && (holds || (is_empty && !all.openings->tree_of(info->fh)));
  if (file == nullptr && node != nullptr) file = node->file;
  ReadTally tally(node == nullptr ? kOtherView : node->view);
  if (node == nullptr || lost || file == nullptr) {
    const int error = node == nullptr || lost ? ESTALE : EISDIR;
    tally.failed(error);
    fuse_reply_err(request, error);
    return;
  }
  const std::uint64_t file_size = file == node->file ? node->size : file->size();
  const auto begin = std::min(file_size, static_cast<std::uint64_t>(offset));
  const Range range{begin, std::min<std::uint64_t>(size, file_size - begin)};
  if (range.size == 0 || file->effort() == Effort::kNone) {
    answer(request, inode, "read", [&] { return read_file(all, *file, range, tally); });
    return;
  }
  const WaitClass kind = file->effort() == Effort::kReads ? WaitClass::kRead : WaitClass::kMade;
  answer_in_turn(request, inode, "read", kind,
                 [&all, file, range, tally = std::move(tally)]() mutable {
                   return read_file(all, *file, range, tally);
                 });
}

}  // namespace ops
}  // namespace reshardfs
