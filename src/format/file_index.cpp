// SPDX-License-Identifier: Apache-2.0
#include "format/file_index.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/name_order.h"
#include "format/index/name_orders.h"

namespace reshardfs {
namespace {

Error stands_twice(const std::string& name, std::size_t first, std::size_t second,
                   const IndexHints& hints) {
  if (second >= hints.offsets.size()) {
    return Error(ErrorKind::kBadInput, "appears twice in one file").for_parameter(name);
  }
  return Error(ErrorKind::kBadInput, "appears twice in the file: the first record is at offset " +
                                         std::to_string(hints.offsets[first]))
      .for_parameter(name)
      .at_offset(hints.offsets[second]);
}

}  // namespace

FileIndex::FileIndex(std::vector<TensorEntry> entries, const IndexHints& hints, BoxOffsets boxes,
                     std::vector<RefusedTensor> refused)
    : entries_(std::move(entries)),
      boxes_(std::move(boxes)),
      refused_(std::move(refused)),
      checksum_bytes_(hints.checksum_bytes) {
  if (entries_.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kBadInput, "more parameters than 32-bit numbers can count");
  }
  refused_by_name_.resize(refused_.size());
  std::iota(refused_by_name_.begin(), refused_by_name_.end(), 0U);
  std::sort(refused_by_name_.begin(), refused_by_name_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return refused_[a].name < refused_[b].name; });
  require_shapes();
  share_shapes();
  const auto twin = hints.known != nullptr ? hints.known->find(entries_) : nullptr;
  if (twin) {
    by_name_ = twin->by_name_;
    // Names that stand once there stand once here.
    if (twin->has_boxes()) require_distinct(hints);
  } else {
    sort_by_name();
    require_distinct(hints);
  }
}

void FileIndex::share_shapes() {
  ShapeKinds kinds;
  for (TensorEntry& entry : entries_) entry.shape = kinds.keep(std::move(entry.shape));
}

void FileIndex::sort_by_name() {
  by_name_ = std::make_shared<const std::vector<std::uint32_t>>(reshardfs::order_by_name(
      entries_.size(), [&](std::size_t i) { return std::string_view(entries_[i].name); }));
}

void FileIndex::require_shapes() const {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const TensorEntry& entry = entries_.at(boxes_.entry(i));
    const auto offsets = *boxes_.of(boxes_.entry(i));
    const bool fits = offsets.size() == entry.shape.size() &&
                      std::all_of(offsets.begin(), offsets.end(),
                                  [](std::int64_t offset) { return offset >= 0; });
    if (fits) continue;
    throw Error(ErrorKind::kBadInput, "has a piece of the shape " + to_string(entry.shape) +
                                          " at the offsets " +
                                          to_string(Shape(offsets.begin(), offsets.end())))
        .for_parameter(entry.name);
  }
}

void FileIndex::require_distinct(const IndexHints& hints) const {
  const auto same_name = [&](std::uint32_t a, std::uint32_t b) {
    return entries_[a].name == entries_[b].name;
  };
  auto first = std::adjacent_find(by_name_->begin(), by_name_->end(), same_name);
  while (first != by_name_->end()) {
    const auto last = std::find_if(first, by_name_->end(),
                                   [&](std::uint32_t i) { return !same_name(*first, i); });
    std::map<std::pair<Shape, Shape>, std::uint32_t> places;
    for (auto at = first; at != last; ++at) {
      const TensorEntry& entry = entries_[*at];
      const auto offsets = boxes_.of(*at);
      if (!offsets) throw stands_twice(entry.name, *first, *(first + 1), hints);
      const auto [twin, is_new] =
          places.try_emplace({Shape(offsets->begin(), offsets->end()), entry.shape.get()}, *at);
      if (!is_new) throw stands_twice(entry.name, twin->second, *at, hints);
    }
    first = std::adjacent_find(last, by_name_->end(), same_name);
  }
}

const TensorEntry* FileIndex::find(std::string_view name) const noexcept {
  const auto at = std::lower_bound(
      by_name_->begin(), by_name_->end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return entries_[i].name < wanted; });
  if (at == by_name_->end() || entries_[*at].name != name) return nullptr;
  return &entries_[*at];
}

bool FileIndex::lists(std::string_view name) const noexcept {
  if (find(name) != nullptr) return true;
  const auto at = std::lower_bound(
      refused_by_name_.begin(), refused_by_name_.end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return refused_[i].name < wanted; });
  return at != refused_by_name_.end() && refused_[*at].name == name;
}

std::span<const std::uint32_t> FileIndex::find_all(std::string_view name) const noexcept {
  const auto at = std::lower_bound(
      by_name_->begin(), by_name_->end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return entries_[i].name < wanted; });
  const auto end = std::upper_bound(
      at, by_name_->end(), name,
      [&](std::string_view wanted, std::uint32_t i) { return wanted < entries_[i].name; });
  return {at, end};
}

}  // namespace reshardfs
