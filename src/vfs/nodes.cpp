// SPDX-License-Identifier: Apache-2.0
#include "vfs/nodes.h"

#include <limits>
#include <utility>

#include <xxhash.h>

namespace reshardfs {

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

std::uint64_t sum_of(const Node& node, bool is_file, std::string& scratch) {
  scratch.clear();
  for (const std::uint64_t value : {node.inode, node.parent, node.size, node.name.size()}) {
    scratch.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  scratch.append(node.name).append(node.link);
  scratch.append({node.hidden ? 'h' : '-', is_file ? 'f' : '-'});
  return XXH3_64bits(scratch.data(), scratch.size());
}

void add_saturated(std::uint64_t& total, std::uint64_t bytes) noexcept {
  if (__builtin_add_overflow(total, bytes, &total)) {
    total = std::numeric_limits<std::uint64_t>::max();
  }
}

}  // namespace reshardfs
