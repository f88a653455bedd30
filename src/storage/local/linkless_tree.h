// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "reshardfs/error.h"

#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// A directory below which symbolic links are never followed, even if they are created while it is
/// in use: the kernel itself refuses links below the directory's descriptor. If the kernel cannot
/// (before Linux 5.6, or in a sandbox), each component of the path is opened separately. Opening a
/// file throws Error kBadInput for a link, and for a path that leads out of the root.
class LinklessTree final : public SourceTree, public std::enable_shared_from_this<LinklessTree> {
 public:
  /// @param root the prefix of all paths; it may be a link itself, or lie behind one.
  /// @throws Error kMissing, kBadInput if it is not a directory, kIo.
  explicit LinklessTree(const std::filesystem::path& root);

  /// Whether a path begins with the root's.
  bool holds(const std::filesystem::path& path) const;
  /// As open(2), close-on-exec.
  /// @param path begins with the root.
  /// @return -1 with errno: ELOOP for a link, EXDEV for a path that leads out of the root.
  int open(const std::filesystem::path& path, int flags) const;
  /// As lstat(2), where the last component alone may be a link. @return false with errno.
  bool examine(const std::filesystem::path& path, struct stat& out) const;

  ByteSourcePtr open_source(const std::filesystem::path& path) const override;
  std::vector<DirectoryEntry> list(const std::filesystem::path& path) const override;
  PathKind kind(const std::filesystem::path& path) const override;
  std::int64_t known_mtime_ns(const std::filesystem::path& path) const override;

 private:
  std::filesystem::path below_root(const std::filesystem::path& path) const;

  std::filesystem::path root_path_;
  Descriptor root_;
};

using LinklessTreePtr = std::shared_ptr<const LinklessTree>;

/// The tree with which to open `path`. nullptr, so that links are followed, if `root` is empty, not
/// a directory, or not a prefix of the path.
/// @throws Error kIo.
LinklessTreePtr linkless_tree_of(const std::filesystem::path& root,
                                 const std::filesystem::path& path);

/// @param tree nullptr: links are followed.
/// @throws Error kBadInput for a link, and for a path that leads out of the root.
ByteSourcePtr open_local_file(const std::filesystem::path& path, DescriptorPool& pool,
                              const LinklessTreePtr& tree);

/// The error for a link that is refused.
Error link_refused(const std::filesystem::path& link);
/// The error for a path that LinklessTree could not open.
Error linkless_error(const std::string& action, const std::filesystem::path& path, int errno_value);

}  // namespace reshardfs
