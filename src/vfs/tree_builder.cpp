// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "reshardfs/error.h"

#include "vfs/tree.h"
#include "vfs/valid_name.h"

namespace reshardfs {
namespace {

/// The kernel's largest offset, less a page: it rounds sizes up to pages.
constexpr std::uint64_t kMaxFileBytes =
    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - 4096;

std::string quoted(std::string_view path) {
  return "'" + printable(std::string(path)) + "'";
}

/// "a/b/c" to {"a/b", "c"}; "c" to {"", "c"}.
std::pair<std::string_view, std::string_view> split_last(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {{}, path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

void check_path(std::string_view path) {
  for (;;) {
    const std::size_t slash = path.find('/');
    check_name(path.substr(0, slash));
    if (slash == std::string_view::npos) return;
    path.remove_prefix(slash + 1);
  }
}

/// total += bytes, but never over the largest number.
void add_saturated(std::uint64_t& total, std::uint64_t bytes) {
  if (__builtin_add_overflow(total, bytes, &total)) {
    total = std::numeric_limits<std::uint64_t>::max();
  }
}

}  // namespace

TreeBuilder::TreeBuilder(InodeNumbering numbering) : numbering_(std::move(numbering)) {
  root_.parent = kRootInode;
}

TreeBuilder::TreeBuilder(BranchRoot root)
    : numbering_([branch = root.branch](std::string_view path, std::uint64_t attempt) {
        return branch_inode_number(branch, path, attempt);
      }),
      root_(std::move(root)),
      is_branch_(true) {
  check_name(root_.name);
}

void TreeBuilder::make_parents(std::string_view path) {
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    const std::string_view parent = path.substr(0, slash);
    const auto it = entries_.try_emplace(std::string(parent)).first;
    if (!it->second.is_directory()) {
      throw Error(ErrorKind::kInternal,
                  quoted(parent) + " is a file, but " + quoted(path) + " needs a directory there");
    }
  }
}

void TreeBuilder::add_directory(std::string_view path) {
  check_path(path);
  make_parents(path);
  const auto it = entries_.try_emplace(std::string(path)).first;
  if (!it->second.is_directory()) {
    throw Error(ErrorKind::kInternal, quoted(path) + " is a file already");
  }
}

void TreeBuilder::add_leaf(std::string_view path, Entry&& entry) {
  make_parents(path);
  if (!entries_.try_emplace(std::string(path), std::move(entry)).second) {
    throw Error(ErrorKind::kInternal, quoted(path) + " exists already");
  }
}

void TreeBuilder::add_file(std::string_view path, std::shared_ptr<const VirtualFile> file) {
  check_path(path);
  if (file == nullptr) throw Error(ErrorKind::kInternal, quoted(path) + " has no contents");
  if (file->size() > kMaxFileBytes) {
    throw Error(ErrorKind::kBadInput, quoted(path) + " would have " + std::to_string(file->size()) +
                                          " bytes, more than a file can");
  }
  Entry entry;
  entry.file = std::move(file);
  add_leaf(path, std::move(entry));
}

void TreeBuilder::add_link(std::string_view path, std::string target) {
  check_path(path);
  if (target.empty()) throw Error(ErrorKind::kInternal, quoted(path) + " leads nowhere");
  Entry entry;
  entry.link = std::move(target);
  add_leaf(path, std::move(entry));
}

TreeBuilder::Entry& TreeBuilder::existing(std::string_view path, const char* verb) {
  const auto it = entries_.find(path);
  if (it != entries_.end()) return it->second;
  throw Error(ErrorKind::kInternal, quoted(path) + " cannot " + verb + ": there is no such node");
}

void TreeBuilder::hide(std::string_view path) {
  existing(path, "be hidden").hidden = true;
}

void TreeBuilder::set_changing(std::string_view path) {
  if (path.empty()) {
    root_changes_ = true;
  } else {
    existing(path, "change").changing = true;
  }
}

void TreeBuilder::add_branch(std::shared_ptr<const Tree> branch, bool shown) {
  branches_.emplace_back(std::move(branch), shown);
}

/// Paths come in sorted order, so which of two colliding paths keeps its first number does not
/// depend on the order in which they were added.
InodeNumber TreeBuilder::free_number(const Tree& tree, std::string_view path) const {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const InodeNumber number = numbering_(path, attempt);
    if (!tree.nodes_.contains(number)) return number;
  }
}

void TreeBuilder::build_root(Tree& tree) const {
  if (is_branch_) tree.root_ = numbering_("", 0);
  Node& root = tree.nodes_[tree.root_];
  root.inode = tree.root_;
  root.parent = root_.parent;
  root.name = root_.name;
  root.changing = root_changes_;
  root.brief = root_changes_ || is_branch_;
  root.pending = pending_;
  root.mtime_ns = mtime_ns_;
}

Node TreeBuilder::make_node(InodeNumber number, const Node& parent, std::string_view name,
                            Entry&& entry) {
  Node node;
  node.inode = number;
  node.parent = parent.inode;
  node.name = name;
  node.hidden = entry.hidden;
  node.changing = entry.changing;
  node.brief = parent.changing || entry.changing;
  node.mtime_ns = mtime_ns_;
  node.link = std::move(entry.link);
  node.size = node.link.size();
  if (entry.file != nullptr) {
    node.size = entry.file->size();
    node.file = std::move(entry.file);
  }
  return node;
}

void TreeBuilder::attach_branches(Tree& tree) {
  const auto before = [&tree](InodeNumber a, InodeNumber b) {
    return tree.find(a)->name < tree.find(b)->name;
  };
  for (auto& [branch, shown] : branches_) {
    const Node& root = branch->root();
    const auto parent = tree.nodes_.find(root.parent);
    if (parent == tree.nodes_.end() || !parent->second.is_directory()) {
      throw Error(ErrorKind::kInternal, quoted(root.name) + " has no directory to hang on");
    }
    add_saturated(tree.total_bytes_, branch->total_bytes());
    tree.node_count_ += branch->node_count();
    tree.branches_.emplace(branch_of(root.inode), branch);
    if (!shown) continue;
    auto& children = parent->second.children;
    children.insert(std::lower_bound(children.begin(), children.end(), root.inode, before),
                    root.inode);
    ++parent->second.listed_directories;
  }
}

Tree TreeBuilder::build() && {
  Tree tree;
  tree.nodes_.reserve(entries_.size() + 1);
  build_root(tree);
  std::unordered_map<std::string_view, InodeNumber> directories{{std::string_view(), tree.root_}};
  for (auto& [path, entry] : entries_) {
    const auto [parent_path, name] = split_last(path);
    const InodeNumber number = free_number(tree, path);
    Node& parent = tree.nodes_.at(directories.at(parent_path));
    parent.children.push_back(number);
    if (entry.is_directory()) {
      directories.emplace(path, number);
      if (!entry.hidden) ++parent.listed_directories;
    }
    Node node = make_node(number, parent, name, std::move(entry));
    if (node.file != nullptr) add_saturated(tree.total_bytes_, node.size);
    tree.nodes_.emplace(number, std::move(node));
  }
  tree.node_count_ = tree.nodes_.size();
  attach_branches(tree);
  return tree;
}

}  // namespace reshardfs
