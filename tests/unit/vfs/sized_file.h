// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reshardfs/virtual_file.h"

#include "vfs/tree.h"

namespace reshardfs::testing_vfs {

/// A file of which only the size counts.
class SizedFile : public VirtualFile {
 public:
  explicit SizedFile(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t, std::span<std::byte>) const override {}

 private:
  std::uint64_t size_;
};

inline std::shared_ptr<const VirtualFile> file_of(std::uint64_t size) {
  return std::make_shared<SizedFile>(size);
}

/// The node that the names lead to from the root, or nullptr.
inline const Node* resolve(const Tree& tree, const std::vector<std::string>& names) {
  const Node* node = tree.find(kRootInode);
  for (const std::string& name : names) {
    if (node == nullptr) return nullptr;
    node = tree.lookup(node->inode, name);
  }
  return node;
}

inline std::vector<std::string> child_names(const Tree& tree, const Node& node) {
  std::vector<std::string> names;
  for (const InodeNumber child : node.children) names.emplace_back(tree.find(child)->name);
  return names;
}

}  // namespace reshardfs::testing_vfs
