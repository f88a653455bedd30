// SPDX-License-Identifier: Apache-2.0
/// The directory tree of a mount: names, attributes, contents. Immutable once built, so that any
/// number of threads may use it without a lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/virtual_file.h"

#include "vfs/inode_number.h"

namespace reshardfs {

struct Node {
  InodeNumber inode = 0;
  InodeNumber parent = 0;
  std::string name;
  /// The contents; nullptr for a directory.
  std::shared_ptr<const VirtualFile> file;
  /// Directories: their children by name; `hidden` nodes answer lookup but are not listed.
  std::vector<InodeNumber> children;
  bool hidden = false;
  /// Of a file: its size, asked for once.
  std::uint64_t size = 0;
  /// Of a directory: how many listed directories it holds (its link count is 2 more).
  std::uint32_t listed_directories = 0;

  bool is_directory() const noexcept { return file == nullptr; }
};

class Tree {
 public:
  /// The node, or nullptr. O(1).
  const Node* find(InodeNumber inode) const noexcept;
  /// The child of a directory by name, or nullptr. O(log n).
  const Node* lookup(InodeNumber directory, std::string_view name) const noexcept;
  /// The node's path below the root, for messages; empty for the root and for unknown numbers.
  std::string path(InodeNumber inode) const;
  /// The sum of all file sizes, bytes; 2^64-1 if it is greater.
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// Nodes, the root and hidden ones among them.
  std::uint64_t node_count() const noexcept { return nodes_.size(); }

 private:
  friend class TreeBuilder;
  std::unordered_map<InodeNumber, Node> nodes_;
  std::uint64_t total_bytes_ = 0;
};

/// Builds a Tree from paths. Inode numbers are derived from the path alone, so that they are the
/// same in every mount that shows the path, in whatever order the paths were added.
class TreeBuilder {
 public:
  /// @param numbering other than inode_number() in tests of collisions alone.
  explicit TreeBuilder(InodeNumbering numbering = inode_number);

  /// @param path relative, components separated by '/'; missing parents are made.
  /// @throws Error kBadInput if a component is empty, ".", "..", longer than 255 bytes or holds a
  ///         NUL or control character; kInternal if the path exists already as something else.
  void add_directory(std::string_view path);
  /// @throws Error as add_directory(); kInternal also if the path exists already as a file;
  ///         kBadInput if the file is larger than a file can be (2^63 - 4097 bytes).
  void add_file(std::string_view path, std::shared_ptr<const VirtualFile> file);
  /// Takes a node, and so all below it, out of its directory's listing; it can still be opened by
  /// name (and then lists its own children).
  /// @throws Error kInternal if there is no such node.
  void hide(std::string_view path);

  Tree build() &&;

 private:
  struct Entry {
    std::shared_ptr<const VirtualFile> file;
    bool hidden = false;
  };

  void make_parents(std::string_view path);
  InodeNumber free_number(const Tree& tree, std::string_view path) const;

  InodeNumbering numbering_;
  /// By path. A directory sorts before all that is below it, and siblings sort by name.
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace reshardfs
