// SPDX-License-Identifier: Apache-2.0
#include "export/page_sharing.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/page_size.h"

namespace reshardfs {
namespace {

/// Files with many short runs are looked at in parts, so that the list of runs stays small.
constexpr std::uint64_t kPart = std::uint64_t{1} << 30U;

std::uint64_t block_bytes_of(int fd) {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0 || system.f_bsize <= 0) return page_bytes();
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(system.f_bsize), page_bytes());
}

bool cannot_share(int errno_value) noexcept {
  return errno_value == EOPNOTSUPP || errno_value == EXDEV || errno_value == ENOTTY ||
         errno_value == ENOSYS;
}

Error no_sharing(const std::string& source) {
  return Error(ErrorKind::kUsage, "shares no blocks with files of the output directory")
      .in_file(source)
      .hint(
          "choose a directory on the same file system, of a kind that shares blocks (XFS, Btrfs), "
          "or "
          "leave out --reflink");
}

}  // namespace

PageSharing::PageSharing(const VirtualFile& file, int fd) : block_bytes_(block_bytes_of(fd)) {
  for (std::uint64_t offset = 0; offset < file.size(); offset += kPart) {
    const std::uint64_t length = std::min(kPart, file.size() - offset);
    for (const StoredRange& stored : file.stored_ranges(offset, length, kLeast)) share(stored, fd);
  }
}

void PageSharing::share(const StoredRange& stored, int fd) {
  const std::uint64_t begin = (stored.offset + block_bytes_ - 1) / block_bytes_ * block_bytes_;
  const std::uint64_t end = (stored.offset + stored.length) / block_bytes_ * block_bytes_;
  if (begin >= end || end - begin < kLeast) return;
  const std::uint64_t from = stored.source_offset + (begin - stored.offset);
  if (from % block_bytes_ != 0) return;
  const auto descriptor = stored.source->descriptor();
  if (!descriptor) throw no_sharing(stored.source->name());
  file_clone_range range{};
  range.src_fd = descriptor->get();
  range.src_offset = from;
  range.src_length = end - begin;
  range.dest_offset = begin;
  while (::ioctl(fd, FICLONERANGE, &range) != 0) {
    if (errno == EINTR) continue;
    if (cannot_share(errno)) throw no_sharing(stored.source->name());
    // The file system has a reason of its own; the bytes are written.
    if (errno == EINVAL) return;
    throw io_error("share blocks with", stored.source->name(), errno);
  }
  shared_bytes_ += end - begin;
  if (!shared_.empty() && shared_.back().end() == begin) {
    shared_.back() = ByteRange::between(shared_.back().offset(), end);
  } else {
    shared_.push_back(ByteRange::between(begin, end));
  }
  if (std::find(sources_.begin(), sources_.end(), stored.source) == sources_.end()) {
    sources_.push_back(stored.source);
  }
}

std::vector<ByteRange> PageSharing::lacking(const ByteRange& range) const {
  std::vector<ByteRange> lacking;
  std::uint64_t at = range.offset();
  auto next = std::upper_bound(shared_.begin(), shared_.end(), at,
                               [](std::uint64_t o, const ByteRange& s) { return o < s.end(); });
  for (; next != shared_.end() && next->offset() < range.end(); ++next) {
    if (next->offset() > at) lacking.push_back(ByteRange::between(at, next->offset()));
    at = next->end();
  }
  if (at < range.end()) lacking.push_back(ByteRange::between(at, range.end()));
  return lacking;
}

void PageSharing::check_sources() const {
  for (const auto& source : sources_) source->check_unchanged();
}

}  // namespace reshardfs
