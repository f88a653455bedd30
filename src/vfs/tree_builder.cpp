// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <string>
#include <unordered_set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/name_order.h"
#include "base/text/utf8.h"
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

/// Each node is moved once: they are large.
void sort_by_number(std::vector<Node>& nodes) {
  std::vector<std::pair<InodeNumber, std::size_t>> order;
  order.reserve(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) order.emplace_back(nodes[i].inode, i);
  std::sort(order.begin(), order.end());
  std::vector<Node> sorted;
  sorted.reserve(nodes.size());
  for (const auto& [inode, position] : order) sorted.push_back(std::move(nodes[position]));
  nodes = std::move(sorted);
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

TreeBuilder::TreeBuilder(std::uint64_t version) : TreeBuilder(inode_number) {
  version_ = version;
}

TreeBuilder::TreeBuilder(BranchRoot root)
    : numbering_([branch = root.branch](std::string_view path, std::uint64_t attempt) {
        return branch_inode_number(branch, path, attempt);
      }),
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
  if (file->size() > kMaxFileBytes) {
    throw Error(ErrorKind::kBadInput, path_in_quotes(path) + " would have " +
                                          std::to_string(file->size()) +
                                          " bytes, more than a file can");
  }
  Entry entry;
  entry.file = std::move(file);
  add_leaf(path, std::move(entry));
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

/// The names and links of a tree, one behind the other.
class TreeBuilder::Texts {
 public:
  explicit Texts(std::size_t bytes) : bytes_(std::make_unique<char[]>(bytes)), end_(bytes_.get()) {}

  std::string_view add(std::string_view text) {
    char* const begin = end_;
    end_ = std::copy(text.begin(), text.end(), end_);
    *end_++ = '\0';
    return {begin, text.size()};
  }
  std::unique_ptr<char[]> take() && { return std::move(bytes_); }

 private:
  std::unique_ptr<char[]> bytes_;
  char* end_;
};

std::size_t TreeBuilder::text_bytes() const {
  std::size_t bytes = root_.name.size() + 1;
  for (const Entry& entry : entries_) {
    bytes += split_last(entry.path).second.size() + 1;
    if (!entry.link.empty()) bytes += entry.link.size() + 1;
  }
  return bytes;
}

Node TreeBuilder::root_node(Texts& texts) const {
  Node root;
  root.inode = is_branch_ ? numbering_("", 0) : kRootInode;
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
  Tree tree;
  Texts texts(text_bytes());
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
      const InodeNumber number = version_ != 0 && has_bytes
                                     ? version_inode_number(version_, path, attempt)
                                     : numbering_(path, attempt);
      if (taken.insert(number).second) return number;
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
  attach_branches(tree);
  return tree;
}

}  // namespace reshardfs
