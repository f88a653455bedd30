// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_places.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/checked.h"

namespace reshardfs {
namespace {

/// The element in which an offset lies. @pre the first one begins at 0.
template <typename Element>
const Element& element_at(const std::vector<Element>& elements, std::uint64_t offset) {
  const auto next =
      std::upper_bound(elements.begin(), elements.end(), offset,
                       [](std::uint64_t at, const Element& element) { return at < element.begin; });
  return *std::prev(next);
}

}  // namespace

std::uint64_t RangeList::add(std::size_t file, const ByteRange& range) {
  const std::uint64_t begin = size_;
  if (!range.empty()) parts_.push_back({begin, file, range});
  size_ = add_or_throw(size_, range.length(), "the size of all tensors");
  return begin;
}

JoinedPart RangeList::part_at(std::uint64_t offset) const {
  const Part& part = element_at(parts_, offset);
  const ByteRange left = part.range.behind_first(offset - part.begin);
  return {part.file, left.offset(), left.length()};
}

std::uint64_t PieceList::add(std::uint64_t length, std::uint64_t start, std::uint64_t piece) {
  const std::uint64_t begin = size_;
  if (length > 0) parameters_.push_back({begin, length, start, piece});
  size_ = add_or_throw(size_, length, "the size of all tensors");
  return begin;
}

JoinedPart PieceList::part_at(std::uint64_t offset) const {
  const Parameter& parameter = element_at(parameters_, offset);
  const std::uint64_t within = offset - parameter.begin;
  const std::uint64_t in_piece = within % parameter.piece;
  const RangeList& rank = *ranks_[static_cast<std::size_t>(within / parameter.piece)];
  JoinedPart part = rank.part_at(parameter.start + in_piece);
  part.length = std::min({part.length, parameter.piece - in_piece, parameter.length - within});
  return part;
}

std::uint64_t PlacesList::add(std::shared_ptr<const JoinedPlaces> places) {
  const std::uint64_t begin = size_;
  size_ = add_or_throw(size_, places->size(), "the size of all tensors");
  if (size_ > begin) sections_.push_back({begin, std::move(places)});
  return begin;
}

JoinedPart PlacesList::part_at(std::uint64_t offset) const {
  const Section& section = element_at(sections_, offset);
  return section.places->part_at(offset - section.begin);
}

}  // namespace reshardfs
