// SPDX-License-Identifier: Apache-2.0
#include "fuse/attributes.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kStatBlock = 512;
constexpr std::uint64_t kFsBlock = 4096;

std::uint64_t blocks(std::uint64_t bytes, std::uint64_t block) {
  return bytes / block + (bytes % block != 0 ? 1 : 0);
}

timespec to_timespec(std::int64_t nanoseconds) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec time{.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
  if (time.tv_nsec < 0) {  // before 1970: nanoseconds still count forward from tv_sec
    --time.tv_sec;
    time.tv_nsec += kSecond;
  }
  return time;
}

/// The tree knows the sizes of files that never change.
std::uint64_t size_of(const Node& node) noexcept {
  if (node.size != 0 || node.file == nullptr) return node.size;
  try {
    return node.file->stat_size();
  } catch (...) {
    return node.size;  // opening the file reports the error
  }
}

struct stat attributes(const Node& node, const MountOptions& options, std::uint64_t size) noexcept {
  struct stat stat {};
  stat.st_ino = node.inode;
  stat.st_uid = options.uid;
  stat.st_gid = options.gid;
  stat.st_blksize = static_cast<blksize_t>(node.file == nullptr ? VirtualFile::kUsualRead
                                                                : node.file->advised_read());
  stat.st_mtim = to_timespec(node.mtime_ns.value_or(options.mtime_ns));
  stat.st_atim = stat.st_mtim;
  stat.st_ctim = stat.st_mtim;
  if (node.is_directory()) {
    stat.st_mode = S_IFDIR | options.dir_mode;
    // 1: how many directories there are is not known; programs that walk trees know that sign.
    stat.st_nlink = node.pending ? nlink_t{1} : nlink_t{2} + node.listed_directories;
  } else {
    stat.st_mode = node.is_link() ? S_IFLNK | 0777 : S_IFREG | options.file_mode;
    stat.st_nlink = 1;
    stat.st_size = static_cast<off_t>(size);
    stat.st_blocks = static_cast<blkcnt_t>(blocks(size, kStatBlock));
  }
  return stat;
}

}  // namespace

bool has_size_to_make(const Node& node) noexcept {
  return node.file != nullptr && node.size == 0 && node.file->effort() != Effort::kNone;
}

struct stat attributes(const Node& node, const MountOptions& options) noexcept {
  return attributes(node, options, size_of(node));
}

struct stat attributes_at_once(const Node& node, const MountOptions& options) noexcept {
  return attributes(node, options, node.size);
}

struct statvfs statistics(const Tree& tree) noexcept {
  struct statvfs statistics {};
  statistics.f_bsize = kFsBlock;
  statistics.f_frsize = kFsBlock;
  statistics.f_blocks = blocks(tree.total_bytes(), kFsBlock);
  statistics.f_files = tree.node_count();
  statistics.f_namemax = 255;
  return statistics;
}

}  // namespace reshardfs
