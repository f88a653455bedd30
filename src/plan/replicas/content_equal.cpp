// SPDX-License-Identifier: Apache-2.0
#include "plan/replicas/content_equal.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace reshardfs {

bool content_equal(const Holding& a, const Holding& b, std::uint64_t limit) {
  if (a.entry->dtype != b.entry->dtype || a.entry->shape != b.entry->shape ||
      a.entry->content_bytes != b.entry->content_bytes) {
    return false;
  }
  constexpr std::uint64_t kBlock = 256 << 10;
  const std::uint64_t total = std::min(limit, a.entry->content_bytes);
  const auto block = static_cast<std::size_t>(std::min(kBlock, total));
  std::vector<std::byte> left(block);
  std::vector<std::byte> right(block);
  ReadBatch batch;
  bool equal = true;
  for (std::uint64_t offset = 0; offset < total && equal; offset += block) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(block, total - offset));
    read_content(a, offset, std::span(left).first(count), batch);
    read_content(b, offset, std::span(right).first(count), batch);
    equal = std::memcmp(left.data(), right.data(), count) == 0;
  }
  batch.check();
  return equal;
}

bool are_replicas_equal(const CellGrid& grid) {
  for (std::size_t i = 0; i < grid.replica_count(); ++i) {
    const auto [cell, copy] = grid.replica_at(i);
    if (copy && !content_equal(grid.cell(cell), copy)) return false;
  }
  return true;
}

}  // namespace reshardfs
