// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <string>
#include <unordered_set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/name_order.h"
#include "base/text/utf8.h"
#include "vfs/deferred_directory.h"
#include "vfs/nodes.h"
#include "vfs/tree.h"

namespace reshardfs {
namespace {

/// The kernel's largest offset, less a page: it rounds sizes up to pages.
constexpr std::uint64_t kMaxFileBytes =
    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - 4096;

constexpr std::size_t kNameBytes = 255;

std::string path_in_quotes(std::string_view path) {
  return "'" + printable(std::string(path)) + "'";
}

void check_size(std::string_view path, std::uint64_t bytes) {
  if (bytes <= kMaxFileBytes) return;
  throw Error(ErrorKind::kBadInput, path_in_quotes(path) + " would have " + std::to_string(bytes) +
                                        " bytes, more than a file can");
}

std::string joined(std::string_view directory, std::string_view name) {
  return std::string(directory) + "/" + std::string(name);
}

/// "a/b/c" to {"a/b", "c"}; "c" to {"", "c"}.
std::pair<std::string_view, std::string_view> split_last(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {{}, path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

[[noreturn]] void refuse(std::string_view name, const std::string& reason) {
  throw Error(ErrorKind::kBadInput, path_in_quotes(name) + " cannot be a file name: " + reason);
}

/// The kernel shows what it is given, and one impossible name makes the whole directory unreadable.
void check_name(std::string_view name) {
  if (name.empty()) refuse(name, "it is empty");
  if (name == "." || name == "..") refuse(name, "it has a meaning of its own");
  if (name.size() > kNameBytes) {
    refuse(name, "it has " + std::to_string(name.size()) + " bytes, more than 255");
  }
  if (name.find('/') != std::string_view::npos) refuse(name, "it holds a '/'");
  if (std::any_of(name.begin(), name.end(), is_control_byte))
    refuse(name, "it holds a control character");
}

void check_path(std::string_view path) {
  for (;;) {
    const std::size_t slash = path.find('/');
    check_name(path.substr(0, slash));
    if (slash == std::string_view::npos) return;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

TreeBuilder::TreeBuilder(InodeNumbering numbering) : numbering_{std::move(numbering)} {
  root_.parent = kRootInode;
}

TreeBuilder::TreeBuilder(std::uint64_t version) : TreeBuilder(inode_number) {
  numbering_.version = version;
}

TreeBuilder::TreeBuilder(BranchRoot root)
    : numbering_{[branch = root.branch](std::string_view path, std::uint64_t attempt) {
        return branch_inode_number(branch, path, attempt);
      }},
      root_(std::move(root)),
      is_branch_(true) {
  check_name(root_.name);
}

/// The entry of a path; a new one is a directory.
TreeBuilder::Entry& TreeBuilder::entry_of(std::string_view path) {
  const auto found = by_path_.find(path);
  if (found != by_path_.end()) return *found->second;
  Entry& entry = entries_.emplace_back();
  entry.path = path;
  by_path_.emplace(entry.path, &entry);
  return entry;
}

void TreeBuilder::make_parents(std::string_view path) {
  // Those of the file before it, mostly.
  const std::string_view own = split_last(path).first;
  if (own.empty() || own == last_parent_) return;
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    const std::string_view parent = path.substr(0, slash);
    const Entry& entry = entry_of(parent);
    if (!entry.is_directory()) {
      throw Error(ErrorKind::kInternal, path_in_quotes(parent) + " is a file, but " +
                                            path_in_quotes(path) + " needs a directory there");
    }
    last_parent_ = entry.path;
  }
}

void TreeBuilder::add_directory(std::string_view path) {
  check_path(path);
  make_parents(path);
  if (!entry_of(path).is_directory()) {
    throw Error(ErrorKind::kInternal, path_in_quotes(path) + " is a file already");
  }
}

void TreeBuilder::add_leaf(std::string_view path, Entry&& entry) {
  make_parents(path);
  if (by_path_.contains(path)) {
    throw Error(ErrorKind::kInternal, path_in_quotes(path) + " exists already");
  }
  entry.path = path;
  Entry& added = entries_.emplace_back(std::move(entry));
  by_path_.emplace(added.path, &added);
}

void TreeBuilder::add_file(std::string_view path, std::shared_ptr<const VirtualFile> file) {
  check_path(path);
  if (file == nullptr) throw Error(ErrorKind::kInternal, path_in_quotes(path) + " has no contents");
  check_size(path, file->size());
  Entry entry;
  entry.file = std::move(file);
  add_leaf(path, std::move(entry));
}

// --- deferred files ----------------------------------------------------------------------------

void TreeBuilder::add_deferred(std::string_view path, std::shared_ptr<const DeferredFiles> files) {
  check_path(path);
  auto directory =
      std::make_shared<DeferredDirectory>(std::string(path), std::move(files), numbering_);
  bool is_flat = true;
  directory->learn([&](std::string_view name, std::uint64_t size) {
    check_path(name);
    if (size > kMaxFileBytes) check_size(joined(path, name), size);
    is_flat = is_flat && name.find('/') == std::string_view::npos;
  });
  if (directory->known().numbers.empty()) return;
  if (!is_flat) return add_all(path, directory->files());
  add_directory(path);
  deferred_.push_back(std::move(directory));
}

void TreeBuilder::add_all(std::string_view path, const DeferredFiles& files) {
  files.make([&](std::string_view name, std::shared_ptr<const VirtualFile> file) {
    add_file(joined(path, name), std::move(file));
  });
}

/// Files are deferred only where it makes no difference: where each node has its first number, and
/// the directory no other entries.
void TreeBuilder::settle_deferred() {
  if (!has_clash()) return;
  for (const auto& directory : deferred_) add_all(directory->path(), directory->files());
  deferred_.clear();
}

bool TreeBuilder::has_clash() const {
  if (deferred_.empty()) return false;
  std::vector<InodeNumber> numbers;
  for (const auto& directory : deferred_) {
    const std::vector<InodeNumber>& more = directory->known().numbers;
    numbers.insert(numbers.end(), more.begin(), more.end());
  }
  numbers.push_back(is_branch_ ? numbering_.number("", false, 0) : kRootInode);
  for (const Entry& entry : entries_) {
    const bool is_inside = std::any_of(
        deferred_.begin(), deferred_.end(),
        [&](const auto& directory) { return split_last(entry.path).first == directory->path(); });
    if (is_inside) return true;
    const bool has_bytes = !entry.link.empty() || (entry.file != nullptr && entry.file->size() > 0);
    numbers.push_back(numbering_.number(entry.path, has_bytes, 0));
  }
  std::sort(numbers.begin(), numbers.end());
  return std::adjacent_find(numbers.begin(), numbers.end()) != numbers.end();
}

/// Of a tree with all other nodes, in the order of their numbers.
void TreeBuilder::attach_deferred(Tree& tree) {
  for (auto& directory : deferred_) {
    const Node* const node = tree.own(numbering_.number(directory->path(), false, 0));
    tree.nodes_[static_cast<std::size_t>(node - tree.nodes_.data())].deferred = true;
    directory->set_node(*node);
    const DeferredDirectory::Known& known = directory->known();
    tree.node_count_ += known.numbers.size();
    add_saturated(tree.total_bytes_, known.bytes);
    tree.deferred_sum_ += known.sum;
    directory->settle();
    tree.deferred_.push_back(std::move(directory));
  }
}

void TreeBuilder::add_link(std::string_view path, std::string target) {
  check_path(path);
  if (target.empty()) throw Error(ErrorKind::kInternal, path_in_quotes(path) + " leads nowhere");
  Entry entry;
  entry.link = std::move(target);
  add_leaf(path, std::move(entry));
}

TreeBuilder::Entry& TreeBuilder::existing(std::string_view path, const char* verb) {
  const auto it = by_path_.find(path);
  if (it != by_path_.end()) return *it->second;
  throw Error(ErrorKind::kInternal,
              path_in_quotes(path) + " cannot " + verb + ": there is no such node");
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

std::size_t TreeBuilder::text_bytes() const {
  std::size_t bytes = root_.name.size() + 1;
  for (const Entry& entry : entries_) {
    bytes += split_last(entry.path).second.size() + 1;
    if (!entry.link.empty()) bytes += entry.link.size() + 1;
  }
  return bytes;
}

Node TreeBuilder::root_node(NodeTexts& texts) const {
  Node root;
  root.inode = is_branch_ ? numbering_.number("", false, 0) : kRootInode;
  root.parent = root_.parent;
  root.name = texts.add(root_.name);
  root.changing = root_changes_;
  root.brief = root_changes_ || is_branch_;
  root.pending = pending_;
  root.mtime_ns = mtime_ns_;
  return root;
}

Node TreeBuilder::make_node(const Node& parent, Entry&& entry) const {
  Node node;
  node.parent = parent.inode;
  node.hidden = entry.hidden;
  node.changing = entry.changing;
  node.brief = parent.changing || entry.changing;
  node.mtime_ns = mtime_ns_;
  node.size = entry.link.size();
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
    const Node* const found = tree.own(root.parent);
    if (found == nullptr || !found->is_directory()) {
      throw Error(ErrorKind::kInternal, path_in_quotes(root.name) + " has no directory to hang on");
    }
    add_saturated(tree.total_bytes_, branch->total_bytes());
    tree.node_count_ += branch->node_count();
    tree.branches_.emplace(branch_of(root.inode), branch);
    if (!shown) continue;
    Node& parent = tree.nodes_[static_cast<std::size_t>(found - tree.nodes_.data())];
    auto& children = parent.children;
    children.insert(std::lower_bound(children.begin(), children.end(), root.inode, before),
                    root.inode);
    ++parent.listed_directories;
  }
}

Tree TreeBuilder::build() && {
  settle_deferred();
  Tree tree;
  NodeTexts texts(text_bytes());
  std::vector<Node>& nodes = tree.nodes_;
  nodes.reserve(entries_.size() + 1);
  nodes.push_back(root_node(texts));
  tree.root_ = nodes.front().inode;
  std::unordered_set<InodeNumber> taken{tree.root_};
  taken.reserve(entries_.size() + 1);
  // Paths come in sorted order, so which of two colliding paths keeps its first number does not
  // depend on the order in which they were added.
  const auto free_number = [&](std::string_view path, bool has_bytes) {
    for (std::uint64_t attempt = 0;; ++attempt) {
      const InodeNumber tried = numbering_.number(path, has_bytes, attempt);
      if (taken.insert(tried).second) return tried;
    }
  };
  std::unordered_map<std::string_view, std::size_t> directories{{std::string_view(), 0}};
  // A directory sorts before all that is below it, and siblings sort by name.
  const std::vector<std::uint32_t> order = order_by_name(
      entries_.size(), [&](std::size_t i) { return std::string_view(entries_[i].path); });
  for (const std::uint32_t position : order) {
    Entry& entry = entries_[position];
    const std::string_view path = entry.path;
    const auto [parent_path, name] = split_last(path);
    Node& parent = nodes[directories.at(parent_path)];
    if (entry.is_directory()) {
      directories.emplace(path, nodes.size());
      if (!entry.hidden) ++parent.listed_directories;
    }
    Node node = make_node(parent, std::move(entry));
    node.view = parent_path.empty() ? view_of(name) : parent.view;
    node.inode = free_number(path, node.size != 0);
    node.name = texts.add(name);
    if (!entry.link.empty()) node.link = texts.add(entry.link);
    parent.children.push_back(node.inode);
    if (node.file != nullptr) add_saturated(tree.total_bytes_, node.size);
    nodes.push_back(std::move(node));
  }
  tree.texts_ = std::move(texts).take();
  for (Node& node : nodes) node.children.shrink_to_fit();
  sort_by_number(nodes);
  tree.node_count_ = nodes.size();
  attach_deferred(tree);
  attach_branches(tree);
  return tree;
}

}  // namespace reshardfs
