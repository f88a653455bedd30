// SPDX-License-Identifier: Apache-2.0
/// The directory tree of a mount: names, attributes, contents. Immutable once built, so that any
/// number of threads may use it without a lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/virtual_file.h"

#include "base/deferred_files.h"
#include "base/process/counters.h"
#include "vfs/inode_number.h"

namespace reshardfs {

class DeferredDirectory;
class NodeTexts;

/// Numbers of nodes. Of a million nodes nearly all are files, whose empty lists take one word.
class NodeNumbers {
 public:
  using const_iterator = const InodeNumber*;  // NOLINT(readability-identifier-naming): as others'

  std::size_t size() const noexcept { return list_ ? list_->size() : 0; }
  bool empty() const noexcept { return size() == 0; }
  const_iterator begin() const noexcept { return list_ ? list_->data() : nullptr; }
  const_iterator end() const noexcept { return begin() + size(); }
  InodeNumber operator[](std::size_t i) const noexcept { return (*list_)[i]; }
  bool operator==(const NodeNumbers& other) const noexcept {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

  void push_back(InodeNumber number) { list().push_back(number); }
  void insert(const_iterator before, InodeNumber number) {
    const auto at = before - begin();
    list().insert(list().begin() + at, number);
  }
  void shrink_to_fit() {
    if (list_) list_->shrink_to_fit();
  }

 private:
  std::vector<InodeNumber>& list() {
    if (!list_) list_ = std::make_unique<std::vector<InodeNumber>>();
    return *list_;
  }

  std::unique_ptr<std::vector<InodeNumber>> list_;
};

/// There may be a million of these.
struct Node {
  InodeNumber inode = 0;
  InodeNumber parent = 0;
  /// The tree owns its bytes; a NUL follows them.
  std::string_view name;
  /// The contents; nullptr for a directory or a link.
  std::shared_ptr<const VirtualFile> file;
  /// Where a symbolic link leads; empty for everything else. As the name.
  std::string_view link;
  /// Directories: their children by name; `hidden` nodes answer lookup but are not listed.
  NodeNumbers children;
  /// Of a file: its size, asked for once.
  std::uint64_t size = 0;
  /// Modification time, nanoseconds since the epoch; nothing: that of the mount.
  std::optional<std::int64_t> mtime_ns;
  /// Of a directory: how many listed directories it holds (its link count is 2 more).
  std::uint32_t listed_directories = 0;
  /// Of what is below a directory at the top, by whose name bytes are counted.
  ViewNumber view = kOtherView;
  bool hidden = false;
  /// Of a directory: another generation of the tree may hold other entries.
  bool changing = false;
  /// Another generation may have another node under this name, or other attributes.
  bool brief = false;
  /// Of a directory: what it holds is not known before it has been opened.
  bool pending = false;
  /// Of a directory: what it holds is known, but its files' nodes are not made before Tree::open().
  bool deferred = false;

  /// Whether its entries take time before they are there.
  bool must_open() const noexcept { return pending || deferred; }
  bool is_link() const noexcept { return !link.empty(); }
  bool is_directory() const noexcept { return file == nullptr && link.empty(); }
};

class Tree {
 public:
  /// The node, or nullptr. O(log n). The number of a file in a deferred directory, which a process
  /// before this one has told the kernel, makes the nodes of that directory. Without memory for
  /// them it is nullptr, too.
  const Node* find(InodeNumber inode) const noexcept;
  /// The same; a deferred directory gets its children. @throws std::bad_alloc
  const Node* open(InodeNumber inode) const;
  /// The child of a directory by name, or nullptr. O(log n) in an open directory; it opens others.
  const Node* lookup(InodeNumber directory, std::string_view name) const;
  /// The node's path below the root, for messages; empty for the root and for unknown numbers.
  std::string path(InodeNumber inode) const;
  const Node& root() const { return *find(root_); }
  /// Calls with each node, the root and hidden ones and those of branches among them; of former
  /// trees with none. Opens all directories.
  void for_each(const std::function<void(const Node&)>& call) const;
  /// The sum of all file sizes, bytes; 2^64-1 if it is greater.
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// A sum of all that the kernel may keep of the nodes: their numbers, names, links, sizes and
  /// times. Of branches nothing. Opens no directory.
  std::uint64_t sum() const;
  /// Nodes, the root and hidden ones among them.
  std::uint64_t node_count() const noexcept { return node_count_; }

  /// A tree that shows the first of these. Of the others it shows nothing, but finds the nodes that
  /// the first one does not have.
  static Tree with_former(std::vector<std::shared_ptr<const Tree>> trees);

 private:
  friend class TreeBuilder;
  friend class DeferredDirectory;
  const Node* own(InodeNumber inode) const noexcept;

  std::vector<Node> nodes_;  ///< sorted by number
  /// Names and links of the nodes, each with a NUL.
  std::unique_ptr<char[]> texts_;  // NOLINT(modernize-avoid-c-arrays): as long as they are
  InodeNumber root_ = kRootInode;
  /// Trees that hang on this one, its trunk.
  std::unordered_map<BranchNumber, std::shared_ptr<const Tree>> branches_;
  /// Few, of which each is a node, too.
  std::vector<std::shared_ptr<const DeferredDirectory>> deferred_;
  std::uint64_t deferred_sum_ = 0;  ///< of their files
  /// Of with_former(); then there are no nodes of its own.
  std::vector<std::shared_ptr<const Tree>> trees_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t node_count_ = 0;
};

/// Where a branch hangs.
struct BranchRoot {
  BranchNumber branch = 0;
  InodeNumber parent = 0;  ///< in the trunk
  std::string name;
};

/// Builds a Tree from paths. Inode numbers are derived from the path alone, so that they are the
/// same in every mount that shows the path, in whatever order the paths were added.
class TreeBuilder {
 public:
  /// @param numbering other than inode_number() for trunks, and in tests of collisions.
  explicit TreeBuilder(InodeNumbering numbering = inode_number);
  /// Of a tree that has replaced others: see version_inode_number().
  explicit TreeBuilder(std::uint64_t version);
  /// Of a branch; its paths are relative to its root.
  /// @throws Error kBadInput if the root's name cannot be a file's.
  explicit TreeBuilder(BranchRoot root);
  TreeBuilder(const TreeBuilder&) = delete;
  TreeBuilder& operator=(const TreeBuilder&) = delete;
  TreeBuilder(TreeBuilder&&) = default;
  TreeBuilder& operator=(TreeBuilder&&) = default;
  ~TreeBuilder() = default;

  /// @param path relative, components separated by '/'; missing parents are made.
  /// @throws Error kBadInput if a component is empty, ".", "..", longer than 255 bytes or holds a
  ///         NUL or control character; kInternal if the path exists already as something else.
  void add_directory(std::string_view path);
  /// @throws Error as add_directory(); kInternal also if the path exists already as a file;
  ///         kBadInput if the file is larger than a file can be (2^63 - 4097 bytes).
  void add_file(std::string_view path, std::shared_ptr<const VirtualFile> file);
  /// Files whose nodes are made when one of them is first needed. To whoever uses the tree it is as
  /// if all had been added with add_file().
  /// @param path of their directory. @throws Error as add_file()
  void add_deferred(std::string_view path, std::shared_ptr<const DeferredFiles> files);
  /// A symbolic link. @throws Error as add_file(); kInternal if the target is empty.
  void add_link(std::string_view path, std::string target);
  /// Takes a node, and so all below it, out of its directory's listing; it can still be opened by
  /// name (and then lists its own children).
  /// @throws Error kInternal if there is no such node.
  void hide(std::string_view path);
  /// Says that the directory's entries may be others in another generation. Empty: the root.
  /// @throws Error kInternal if there is no such node.
  void set_changing(std::string_view path);
  /// Says that what the tree holds is not known yet.
  void set_pending() { pending_ = true; }
  /// Modification time of all nodes, nanoseconds since the epoch.
  void set_mtime(std::int64_t ns) { mtime_ns_ = ns; }

  /// Hangs a branch on the tree, which must be built with trunk_inode_number().
  /// @param shown false: its nodes are found by their numbers, but its parent does not show it.
  void add_branch(std::shared_ptr<const Tree> branch, bool shown);

  /// @throws Error kInternal if a branch's parent is no directory of the tree.
  Tree build() &&;

 private:
  struct Entry {
    std::string path;
    std::shared_ptr<const VirtualFile> file;
    std::string link;
    bool hidden = false;
    bool changing = false;

    bool is_directory() const noexcept { return file == nullptr && link.empty(); }
  };

  void make_parents(std::string_view path);
  void add_leaf(std::string_view path, Entry&& entry);
  Entry& existing(std::string_view path, const char* verb);
  void add_all(std::string_view path, const DeferredFiles& files);
  void settle_deferred();
  bool has_clash() const;
  void attach_deferred(Tree& tree);
  std::size_t text_bytes() const;
  Node root_node(NodeTexts& texts) const;
  Node make_node(const Node& parent, Entry&& entry) const;
  void attach_branches(Tree& tree);

  Entry& entry_of(std::string_view path);

  PathNumbering numbering_;

  /// In the order in which they were added; they stay in their places.
  std::deque<Entry> entries_;
  std::unordered_map<std::string_view, Entry*> by_path_;
  std::vector<std::shared_ptr<DeferredDirectory>> deferred_;
  std::string_view last_parent_;  ///< whose parents have been made
  BranchRoot root_;
  bool is_branch_ = false;
  bool root_changes_ = false;
  bool pending_ = false;
  std::optional<std::int64_t> mtime_ns_;
  std::vector<std::pair<std::shared_ptr<const Tree>, bool>> branches_;
};

}  // namespace reshardfs
