// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "base/process/counters.h"
#include "fuse/attributes.h"
#include "fuse/mounting/passthrough.h"
#include "fuse/operations.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

// --- openings ----------------------------------------------------------------------------------

/// @return the source that the kernel has read itself, or nullptr.
ByteSourcePtr end(ServedTree& all, OpeningHandle handle, std::uint64_t tree) noexcept {
  OpenFilePtr open = all.files.take(handle);
  const bool backed = open != nullptr && open->backed;
  ByteSourcePtr source = backed ? all.passthrough.files->close(open->inode) : nullptr;
  open.reset();  // the source may close its files with the last opening
  all.source.closed(tree);
  return source;
}

/// @param info of the request. @param request its number.
Reply open_file(ServedTree& all, OpenFile file, fuse_file_info info, std::uint64_t request) {
  if (!all.source.file_opened(file.inode)) return Reply::error(ESTALE);
  const std::uint64_t tree = all.source.tree_of(file.inode);
  info.fh = opening_handle(request, false);
  try {
    auto snapshot = file.file->snapshot();
    const bool changes = snapshot != nullptr;
    if (changes) {
      info.fh = opening_handle(request, true);
      file.hold(std::move(snapshot));
    }
    const auto open = std::make_shared<OpenFile>(std::move(file));
    all.files.add(info.fh, open);
    // A file with changing contents has size 0, beyond which the kernel's page cache would not
    // read.
    const bool direct_io = all.options.direct_io || changes;
    info.direct_io = direct_io ? 1 : 0;
    info.keep_cache = direct_io ? 0 : 1;
    // Contents that change have no source.
    if (all.passthrough.on && !changes) {
      const std::int32_t number = all.passthrough.files->open(open->inode, *open->file);
      open->backed = true;
      if (number != BackingFiles::kNone) read_from_backing_file(info, number);
    }
    return Reply::opened(info, tree, [&all, handle = info.fh, tree](Reply::Outcome outcome) {
      if (outcome == Reply::Outcome::kNot) end(all, handle, tree);
      // The source was told of it when this process began.
      if (outcome == Reply::Outcome::kWasOpen) all.source.closed(tree);
      if (outcome == Reply::Outcome::kOpen) all.files.confirm(handle);
    });
  } catch (...) {
    end(all, info.fh, tree);
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

/// The file that reads of an opening read, or the error.
struct FileOrError {
  OpenFilePtr open;
  int error = 0;  ///< an errno, if there is no file
};

/// Of an opening that a process before this one has answered.
/// @param held what the handle has here: a text of that process, or nothing.
FileOrError find_opened_before(ServedTree& all, InodeNumber inode, OpeningHandle handle,
                               const OpenFilePtr& held) {
  const TreePtr tree = all.source.current();
  const Node* node = tree->find(inode);
  if (node == nullptr) return {nullptr, ESTALE};
  if (node->file == nullptr) return {nullptr, EISDIR};
  OpenFile file(*node);
  if (holds_something(handle)) {
    // A text that a process held which has crashed is gone.
    if (held == nullptr || held->inode != 0) return {nullptr, ESTALE};
    file.hold(held->file);
  }
  const bool known = all.openings->tree_of(handle).has_value();
  // Where there are no bytes, there may have been such a text; a handle may never have been given.
  if (!known && !holds_something(handle) && file.size == 0) return {nullptr, ESTALE};
  auto open = std::make_shared<const OpenFile>(std::move(file));
  if (known && (held == nullptr || held->inode == 0)) {
    all.files.restore(handle, open);
    // It may have been closed since: of a killed program before the read has ended.
    if (!all.openings->tree_of(handle)) all.files.remove(handle);
  }
  return {std::move(open)};
}

FileOrError find_open(ServedTree& all, InodeNumber inode, OpeningHandle handle) noexcept {
  try {
    OpenFilePtr open = all.files.find(handle);
    if (open != nullptr && open->inode == inode) return {std::move(open)};
    return find_opened_before(all, inode, handle, open);
  } catch (...) {
    return {nullptr, errno_of_current_exception()};
  }
}

/// @return bytes, or throws what the file throws.
Reply read_file(ServedTree& all, const VirtualFile& file, const FilePart& part, ReadTally& tally) {
  try {
    if (part.bytes == 0) return Reply::end_of_file(std::move(tally));
    BufferPool::Lease lease = all.buffers.take(part.bytes);
    file.read_at(part.offset, lease.bytes());
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
  auto open = [&all, file = OpenFile(*node), handle = *info, number = request_number()] {
    return open_file(all, file, handle, number);
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
  const auto tree = take_opening(request, info->fh);
  const ByteSourcePtr source = tree ? end(all, info->fh, *tree) : nullptr;
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
  const auto [open, error] = find_open(all, inode, info->fh);
  ReadTally tally(open == nullptr ? kOtherView : open->view);
  if (open == nullptr) {
    tally.failed(error);
    fuse_reply_err(request, error);
    return;
  }
  const FilePart part = open->part(static_cast<std::uint64_t>(offset), size);
  const std::optional<WaitClass> wait = part.bytes == 0 ? std::nullopt : open->wait;
  // The read keeps the file: of a killed program it may be closed before the read has ended.
  auto read = [&all, kept = open, part, tally = std::move(tally)]() mutable {
    return read_file(all, *kept->file, part, tally);
  };
  if (!wait) return answer(request, inode, "read", read);
  answer_in_turn(request, inode, "read", *wait, std::move(read));
}

}  // namespace ops
}  // namespace reshardfs
