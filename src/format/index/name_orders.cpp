// SPDX-License-Identifier: Apache-2.0
#include "format/index/name_orders.h"

#include <algorithm>
#include <utility>

namespace reshardfs {

void NameOrders::add(std::shared_ptr<const FileIndex> index) {
  const std::lock_guard lock(mutex_);
  const bool known = std::any_of(indexes_.begin(), indexes_.end(), [&](const auto& other) {
    return other->name_order() == index->name_order();
  });
  if (!known) indexes_.push_back(std::move(index));
}

std::shared_ptr<const FileIndex> NameOrders::find(const std::vector<TensorEntry>& entries) const {
  if (entries.empty()) return nullptr;
  const auto same_name = [](const TensorEntry& a, const TensorEntry& b) {
    return a.name == b.name;
  };
  // The number of names and the last one tell nearly all strangers: few are compared unlocked.
  std::vector<std::shared_ptr<const FileIndex>> candidates;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& index : indexes_) {
      const std::vector<TensorEntry>& known = index->entries();
      if (known.size() == entries.size() && same_name(known.back(), entries.back())) {
        candidates.push_back(index);
      }
    }
  }
  for (auto& index : candidates) {
    if (std::equal(entries.begin(), entries.end(), index->entries().begin(), same_name)) {
      return std::move(index);
    }
  }
  return nullptr;
}

}  // namespace reshardfs
