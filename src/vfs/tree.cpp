// SPDX-License-Identifier: Apache-2.0
#include "vfs/tree.h"

#include <algorithm>

namespace reshardfs {

const Node* Tree::own(InodeNumber inode) const noexcept {
  const auto it = std::lower_bound(nodes_.begin(), nodes_.end(), inode,
                                   [](const Node& node, InodeNumber i) { return node.inode < i; });
  return it == nodes_.end() || it->inode != inode ? nullptr : &*it;
}

const Node* Tree::find(InodeNumber inode) const noexcept {
  if (const Node* node = own(inode)) return node;
  if (branches_.empty() || !is_in_branch(inode)) return nullptr;
  const auto branch = branches_.find(branch_of(inode));
  return branch == branches_.end() ? nullptr : branch->second->find(inode);
}

const Node* Tree::lookup(InodeNumber directory, std::string_view name) const noexcept {
  const Node* node = find(directory);
  if (node == nullptr) return nullptr;
  const auto before = [this](InodeNumber child, std::string_view wanted) {
    return find(child)->name < wanted;
  };
  const auto it = std::lower_bound(node->children.begin(), node->children.end(), name, before);
  if (it == node->children.end()) return nullptr;
  const Node* child = find(*it);
  return child->name == name ? child : nullptr;
}

std::string Tree::path(InodeNumber inode) const {
  std::string path;
  for (const Node* node = find(inode); node != nullptr && node->inode != kRootInode;
       node = find(node->parent)) {
    if (!path.empty()) path.insert(0, 1, '/');
    path.insert(0, node->name);
  }
  return path;
}

}  // namespace reshardfs
