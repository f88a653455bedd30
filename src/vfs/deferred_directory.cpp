// SPDX-License-Identifier: Apache-2.0
#include "vfs/deferred_directory.h"

#include <algorithm>
#include <utility>

#include "base/text/name_order.h"
#include "vfs/nodes.h"

namespace reshardfs {
namespace {

/// A copy of the node without its children.
Node copy_of(const Node& node) noexcept {
  Node copy;
  copy.inode = node.inode;
  copy.parent = node.parent;
  copy.name = node.name;
  copy.mtime_ns = node.mtime_ns;
  copy.view = node.view;
  copy.hidden = node.hidden;
  copy.changing = node.changing;
  copy.brief = node.brief;
  return copy;
}

}  // namespace

DeferredDirectory::DeferredDirectory(std::string path, std::shared_ptr<const DeferredFiles> files,
                                     PathNumbering numbering)
    : path_(std::move(path)), files_(std::move(files)), numbering_(std::move(numbering)) {}

/// @param path that of the directory and a '/', behind which it changes.
InodeNumber DeferredDirectory::number_of(std::string& path, std::string_view name,
                                         std::uint64_t size) const {
  path.resize(path_.size() + 1);
  path += name;
  return numbering_.number(path, size != 0, 0);
}

void DeferredDirectory::learn(DeferredFiles::Tell check) {
  std::string path = path_ + "/";
  std::string scratch;
  Node node;
  node.parent = numbering_.number(path_, false, 0);
  files_->tell([&](std::string_view name, std::uint64_t size) {
    check(name, size);
    node.inode = number_of(path, name, size);
    node.size = size;
    node.name = name;
    known_.numbers.push_back(node.inode);
    known_.sum += sum_of(node, /*is_file=*/true, scratch);
    add_saturated(known_.bytes, size);
  });
}

void DeferredDirectory::settle() {
  const std::vector<InodeNumber> numbers = std::exchange(known_.numbers, {});
  halves_.reserve(numbers.size());
  for (const InodeNumber number : numbers) halves_.push_back(static_cast<std::uint32_t>(number));
  std::sort(halves_.begin(), halves_.end());
}

bool DeferredDirectory::may_have(InodeNumber number) const noexcept {
  return std::binary_search(halves_.begin(), halves_.end(), static_cast<std::uint32_t>(number));
}

void DeferredDirectory::set_node(const Node& node) noexcept {
  node_ = copy_of(node);
}

const Tree& DeferredDirectory::tree() const {
  once_.call([this] {
    tree_ = std::make_unique<const Tree>(make());
    made_.store(tree_.get(), std::memory_order_release);
  });
  return *tree_;
}

Tree DeferredDirectory::make() const {
  std::vector<std::shared_ptr<const VirtualFile>> files;
  std::string names;
  std::vector<std::size_t> ends;
  files_->make([&](std::string_view name, std::shared_ptr<const VirtualFile> file) {
    files.push_back(std::move(file));
    names += name;
    ends.push_back(names.size());
  });
  const auto name_of = [&](std::size_t i) {
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(names).substr(begin, ends[i] - begin);
  };
  Tree tree;
  NodeTexts texts(names.size() + files.size());
  std::vector<Node>& nodes = tree.nodes_;
  nodes.reserve(files.size() + 1);
  nodes.push_back(copy_of(node_));
  std::string path = path_ + "/";
  for (const std::uint32_t position : order_by_name(files.size(), name_of)) {
    Node node;
    node.parent = node_.inode;
    node.name = texts.add(name_of(position));
    node.size = files[position]->size();
    node.inode = number_of(path, node.name, node.size);
    node.file = std::move(files[position]);
    node.mtime_ns = node_.mtime_ns;
    node.view = node_.view;
    node.brief = node_.changing;
    nodes.front().children.push_back(node.inode);
    nodes.push_back(std::move(node));
  }
  nodes.front().children.shrink_to_fit();
  tree.root_ = node_.inode;
  tree.texts_ = std::move(texts).take();
  sort_by_number(nodes);
  tree.node_count_ = nodes.size();
  return tree;
}

}  // namespace reshardfs
