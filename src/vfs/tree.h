// SPDX-License-Identifier: Apache-2.0
/// The directory tree of a mount: names, attributes, contents. Immutable once built, so that any
/// number of threads may use it without a lock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/virtual_file.h"

namespace reshardfs {

using InodeNumber = std::uint64_t;
inline constexpr InodeNumber kRootInode = 1;

struct Node {
  InodeNumber inode = 0;
  InodeNumber parent = 0;
  std::string name;
  /// The contents; nullptr for a directory.
  std::shared_ptr<const VirtualFile> file;
  /// Directories: their children by name; `hidden` nodes answer lookup but are not listed.
  std::vector<InodeNumber> children;
  bool hidden = false;

  bool is_directory() const noexcept { return file == nullptr; }
};

class Tree {
 public:
  /// The node, or nullptr. O(1).
  const Node* find(InodeNumber inode) const noexcept;
  /// The child of a directory by name, or nullptr. O(log n).
  const Node* lookup(InodeNumber directory, std::string_view name) const noexcept;
  /// The sum of all file sizes, bytes.
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  std::uint64_t node_count() const noexcept { return nodes_.size(); }

 private:
  friend class TreeBuilder;
  std::unordered_map<InodeNumber, Node> nodes_;
  std::uint64_t total_bytes_ = 0;
};

/// Builds a Tree from paths. Inode numbers are derived from the path alone, so that they are the
/// same in every mount that shows the path.
class TreeBuilder {
 public:
  TreeBuilder();

  /// @param path relative, components separated by '/'; missing parents are made.
  /// @throws Error kBadInput if a component is empty, ".", "..", longer than 255 bytes or holds a
  ///         NUL or control character; kInternal if the path exists already as something else.
  void add_directory(std::string_view path);
  void add_file(std::string_view path, std::shared_ptr<const VirtualFile> file);
  /// Takes a node and all below it out of listings; it can still be opened by name.
  void hide(std::string_view path);

  Tree build() &&;

 private:
  InodeNumber make(std::string_view path, std::shared_ptr<const VirtualFile> file);
  Tree tree_;
};

}  // namespace reshardfs
