// SPDX-License-Identifier: Apache-2.0
#include "format/box_offsets.h"

#include <algorithm>
#include <cassert>

namespace reshardfs {

void BoxOffsets::add(std::size_t entry, const Shape& offsets) {
  assert(boxes_.empty() || boxes_.back().entry < entry);
  boxes_.push_back({entry, offsets_.size()});
  offsets_.insert(offsets_.end(), offsets.begin(), offsets.end());
}

std::optional<std::span<const std::int64_t>> BoxOffsets::of(std::size_t entry) const noexcept {
  const auto found =
      std::lower_bound(boxes_.begin(), boxes_.end(), entry,
                       [](const Place& box, std::size_t wanted) { return box.entry < wanted; });
  if (found == boxes_.end() || found->entry != entry) return std::nullopt;
  const auto next = found + 1;
  const std::size_t end = next == boxes_.end() ? offsets_.size() : next->first;
  return std::span(offsets_).subspan(found->first, end - found->first);
}

}  // namespace reshardfs
