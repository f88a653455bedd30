// SPDX-License-Identifier: Apache-2.0
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

}  // namespace

TreeBuilder::TreeBuilder(InodeNumbering numbering) : numbering_(numbering) {}

void TreeBuilder::make_parents(std::string_view path) {
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    const std::string_view parent = path.substr(0, slash);
    const auto it = entries_.try_emplace(std::string(parent)).first;
    if (it->second.file != nullptr) {
      throw Error(ErrorKind::kInternal,
                  quoted(parent) + " is a file, but " + quoted(path) + " needs a directory there");
    }
  }
}

void TreeBuilder::add_directory(std::string_view path) {
  check_path(path);
  make_parents(path);
  const auto it = entries_.try_emplace(std::string(path)).first;
  if (it->second.file != nullptr) {
    throw Error(ErrorKind::kInternal, quoted(path) + " is a file already");
  }
}

void TreeBuilder::add_file(std::string_view path, std::shared_ptr<const VirtualFile> file) {
  check_path(path);
  if (file == nullptr) throw Error(ErrorKind::kInternal, quoted(path) + " has no contents");
  if (file->size() > kMaxFileBytes) {
    throw Error(ErrorKind::kBadInput, quoted(path) + " would have " + std::to_string(file->size()) +
                                          " bytes, more than a file can");
  }
  make_parents(path);
  if (!entries_.try_emplace(std::string(path), Entry{std::move(file), false}).second) {
    throw Error(ErrorKind::kInternal, quoted(path) + " exists already");
  }
}

void TreeBuilder::hide(std::string_view path) {
  const auto it = entries_.find(path);
  if (it == entries_.end()) {
    throw Error(ErrorKind::kInternal, quoted(path) + " cannot be hidden: there is no such node");
  }
  it->second.hidden = true;
}

/// Paths come in sorted order, so which of two colliding paths keeps its first number does not
/// depend on the order in which they were added.
InodeNumber TreeBuilder::free_number(const Tree& tree, std::string_view path) const {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const InodeNumber number = numbering_(path, attempt);
    if (!tree.nodes_.contains(number)) return number;
  }
}

Tree TreeBuilder::build() && {
  Tree tree;
  tree.nodes_.reserve(entries_.size() + 1);
  Node& root = tree.nodes_[kRootInode];
  root.inode = kRootInode;
  root.parent = kRootInode;

  std::unordered_map<std::string_view, InodeNumber> directories{{std::string_view(), kRootInode}};
  for (auto& [path, entry] : entries_) {
    const auto [parent_path, name] = split_last(path);
    const InodeNumber number = free_number(tree, path);
    Node& parent = tree.nodes_.at(directories.at(parent_path));
    parent.children.push_back(number);

    Node node;
    node.inode = number;
    node.parent = parent.inode;
    node.name = name;
    node.hidden = entry.hidden;
    if (entry.file == nullptr) {
      directories.emplace(path, number);
      if (!entry.hidden) ++parent.listed_directories;
    } else {
      node.size = entry.file->size();
      node.file = std::move(entry.file);
      if (__builtin_add_overflow(tree.total_bytes_, node.size, &tree.total_bytes_)) {
        tree.total_bytes_ = std::numeric_limits<std::uint64_t>::max();
      }
    }
    tree.nodes_.emplace(number, std::move(node));
  }
  return tree;
}

}  // namespace reshardfs
