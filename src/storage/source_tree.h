// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/byte_source.h"
#include "storage/local/directory.h"

namespace reshardfs {

/// Opens the files of a source in another way than by their paths: without following links
/// (linkless_tree.h), or from a server's lists (remote_tree.h). Paths begin with the tree's root.
/// Every member function may be called from any number of threads at once.
class SourceTree {
 public:
  SourceTree() = default;
  SourceTree(const SourceTree&) = delete;
  SourceTree& operator=(const SourceTree&) = delete;
  virtual ~SourceTree() = default;

  /// @throws what open_file() throws.
  virtual ByteSourcePtr open_source(const std::filesystem::path& path) const = 0;
  /// @throws what list_directory() throws.
  virtual std::vector<DirectoryEntry> list(const std::filesystem::path& path) const = 0;
  /// @throws what path_kind() throws.
  virtual PathKind kind(const std::filesystem::path& path) const = 0;
  /// The modification time of a file, in nanoseconds since the epoch, if it is known without a
  /// request; 0: unknown, or no such file.
  virtual std::int64_t known_mtime_ns(const std::filesystem::path& /*path*/) const { return 0; }

  /// Announces that these directories will be listed, one after the other.
  virtual void foresee_lists(std::span<const std::filesystem::path> /*paths*/) const {}
};

using SourceTreePtr = std::shared_ptr<const SourceTree>;

/// Like the functions of byte_source.h and directory.h; without a tree (nullptr) they are the same.
/// @throws what those throw.
ByteSourcePtr open_file(const std::filesystem::path& path, const SourceTreePtr& tree);
std::string read_small_file(const std::filesystem::path& path, std::uint64_t max_bytes,
                            const SourceTreePtr& tree);
std::vector<DirectoryEntry> list_directory(const std::filesystem::path& path,
                                           const SourceTreePtr& tree);
PathKind path_kind(const std::filesystem::path& path, const SourceTreePtr& tree);
/// Symbolic links are followed. Never throws.
std::int64_t known_mtime_ns(const std::filesystem::path& path, const SourceTreePtr& tree) noexcept;

}  // namespace reshardfs
