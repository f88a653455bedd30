// SPDX-License-Identifier: Apache-2.0
#include "vfs/tree.h"

#include <algorithm>
#include <utility>

#include <xxhash.h>

#include "vfs/deferred_directory.h"
#include "vfs/nodes.h"

namespace reshardfs {

const Node* Tree::own(InodeNumber inode) const noexcept {
  const auto it = std::lower_bound(nodes_.begin(), nodes_.end(), inode,
                                   [](const Node& node, InodeNumber i) { return node.inode < i; });
  return it == nodes_.end() || it->inode != inode ? nullptr : &*it;
}

const Node* Tree::find(InodeNumber inode) const noexcept {
  if (const Node* node = own(inode)) {
    if (!node->deferred) return node;
    for (const auto& directory : deferred_) {
      // Once it is open, its node has children.
      if (directory->inode() != inode) continue;
      const Tree* const made = directory->made();
      return made == nullptr ? node : made->own(inode);
    }
    return node;
  }
  for (const auto& directory : deferred_) {
    if (!directory->may_have(inode)) continue;
    try {
      if (const Node* node = directory->tree().own(inode)) return node;
    } catch (const std::exception&) {
      // No memory.
    }
  }
  for (const auto& tree : trees_) {
    if (const Node* node = tree->find(inode)) return node;
  }
  if (branches_.empty() || !is_in_branch(inode)) return nullptr;
  const auto branch = branches_.find(branch_of(inode));
  return branch == branches_.end() ? nullptr : branch->second->find(inode);
}

const Node* Tree::open(InodeNumber inode) const {
  const Node* node = find(inode);
  if (node == nullptr || !node->deferred) return node;
  for (const auto& directory : deferred_) {
    if (directory->inode() == inode) return directory->tree().own(inode);
  }
  // It is another tree's.
  for (const auto& tree : trees_) {
    if (tree->find(inode) == node) return tree->open(inode);
  }
  return branches_.at(branch_of(inode))->open(inode);
}

const Node* Tree::lookup(InodeNumber directory, std::string_view name) const {
  const Node* node = open(directory);
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

void Tree::for_each(const std::function<void(const Node&)>& call) const {
  if (!trees_.empty()) return trees_.front()->for_each(call);
  for (const Node& node : nodes_) {
    if (!node.deferred) call(node);
  }
  for (const auto& directory : deferred_) directory->tree().for_each(call);
  for (const auto& [number, branch] : branches_) branch->for_each(call);
}

Tree Tree::with_former(std::vector<std::shared_ptr<const Tree>> trees) {
  Tree tree;
  tree.total_bytes_ = trees.front()->total_bytes_;
  tree.node_count_ = trees.front()->node_count_;
  tree.trees_ = std::move(trees);
  return tree;
}

std::uint64_t Tree::sum() const {
  // All nodes of a tree have one time.
  const std::int64_t mtime = root().mtime_ns.value_or(-1);
  std::uint64_t sum = XXH3_64bits(&mtime, sizeof mtime) + deferred_sum_;
  std::string scratch;
  for (const Node& node : nodes_) sum += sum_of(node, node.file != nullptr, scratch);
  return sum;
}

}  // namespace reshardfs
