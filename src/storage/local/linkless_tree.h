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

/// A directory below which nothing is reached by a symbolic link, whatever is put there while it is
/// in use: the kernel itself refuses links on the way, from the directory's descriptor on. Where it
/// cannot (before Linux 5.6, and where a sandbox does not allow it), the way is gone step by step.
/// What it opens for whom it is given to throws Error kBadInput for a link, and for a path that
/// leads out of the root.
class LinklessTree final : public SourceTree, public std::enable_shared_from_this<LinklessTree> {
 public:
  /// @param root what all paths begin with; it may be a link itself, or lie behind one.
  /// @throws Error kMissing, kBadInput if it is no directory, kIo.
  explicit LinklessTree(const std::filesystem::path& root);

  /// Whether a path begins with the root's.
  bool holds(const std::filesystem::path& path) const;
  /// As open(2), close-on-exec.
  /// @param path root and what follows it.
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

/// The tree to open `path` with: nullptr, so that links are followed, where `root` is empty, is no
/// directory or is not what the path begins with.
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
