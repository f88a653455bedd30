// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "reshardfs/strategy.h"

#include "base/share_equal.h"

namespace reshardfs {

StageLayouts::StageLayouts(std::initializer_list<std::pair<std::string, Layout>> items) {
  for (const auto& [name, layout] : items) try_emplace(name, layout);
}

std::pair<StageLayouts::const_iterator, bool> StageLayouts::try_emplace(std::string name,
                                                                        const Layout& layout) {
  const auto [position, is_new] = layouts_.try_emplace(std::move(name));
  if (is_new) position->second = share_equal(kinds_, layout);
  return {const_iterator(position), is_new};
}

void StageLayouts::insert_or_assign(const std::string& name, const Layout& layout) {
  layouts_.insert_or_assign(name, share_equal(kinds_, layout));
}

bool StageLayouts::operator==(const StageLayouts& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

}  // namespace reshardfs
