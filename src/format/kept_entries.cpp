// SPDX-License-Identifier: Apache-2.0
#include "format/kept_entries.h"

#include <algorithm>
#include <cassert>

namespace reshardfs {
namespace {

constexpr std::size_t kMostKinds = 4096;

std::size_t hash_of(const Shape& shape) noexcept {
  std::uint64_t hash = shape.size();
  for (const std::int64_t size : shape) {
    hash = (hash ^ static_cast<std::uint64_t>(size)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  }
  return hash;
}

}  // namespace

KeptShape* ShapeKinds::find(const Shape& shape) {
  const auto [begin, end] = kinds_.equal_range(hash_of(shape));
  for (auto at = begin; at != end; ++at) {
    if (at->second == shape) return &at->second;
  }
  return nullptr;
}

void ShapeKinds::add(const Shape& shape, const KeptShape& kept) {
  if (kinds_.size() < kMostKinds) kinds_.emplace(hash_of(shape), kept);
}

KeptShape ShapeKinds::keep(const Shape& shape) {
  if (last_ == shape) return last_;  // mostly
  if (const KeptShape* const known = find(shape)) return last_ = *known;
  KeptShape kept{Shape(shape)};
  add(shape, kept);
  return last_ = kept;
}

KeptShape ShapeKinds::keep(KeptShape shape) {
  if (last_ == shape) return last_;
  if (const KeptShape* const known = find(shape)) return last_ = *known;
  add(shape, shape);
  return last_ = std::move(shape);
}

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
