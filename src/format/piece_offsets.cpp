// SPDX-License-Identifier: Apache-2.0
#include "format/piece_offsets.h"

#include <algorithm>
#include <cassert>

namespace reshardfs {

void PieceOffsets::add(std::size_t entry, const Shape& offsets) {
  assert(pieces_.empty() || pieces_.back().entry < entry);
  pieces_.push_back({entry, offsets_.size()});
  offsets_.insert(offsets_.end(), offsets.begin(), offsets.end());
}

std::optional<std::span<const std::int64_t>> PieceOffsets::of(std::size_t entry) const noexcept {
  const auto found =
      std::lower_bound(pieces_.begin(), pieces_.end(), entry,
                       [](const Piece& piece, std::size_t wanted) { return piece.entry < wanted; });
  if (found == pieces_.end() || found->entry != entry) return std::nullopt;
  const auto next = found + 1;
  const std::size_t end = next == pieces_.end() ? offsets_.size() : next->first;
  return std::span(offsets_).subspan(found->first, end - found->first);
}

}  // namespace reshardfs
