// SPDX-License-Identifier: Apache-2.0
#include "format/file_index.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "reshardfs/error.h"

#include "format/name_orders.h"

namespace reshardfs {
namespace {

Error stands_twice(const std::string& name, std::size_t first, std::size_t second,
                   const IndexHints& hints) {
  if (second >= hints.offsets.size()) {
    return Error(ErrorKind::kBadInput, "stands twice in one file").for_parameter(name);
  }
  return Error(ErrorKind::kBadInput, "stands twice in the file: the first record is at offset " +
                                         std::to_string(hints.offsets[first]))
      .for_parameter(name)
      .at_offset(hints.offsets[second]);
}

}  // namespace

FileIndex::FileIndex(std::vector<TensorEntry> entries, const IndexHints& hints)
    : entries_(std::move(entries)), checksum_bytes_(hints.checksum_bytes) {
  if (entries_.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kBadInput, "more parameters than 32-bit numbers can count");
  }
  const auto twin = hints.known != nullptr ? hints.known->find(entries_) : nullptr;
  if (twin) {
    by_name_ = twin->by_name_;
  } else {
    sort_by_name(hints);
  }
}

void FileIndex::sort_by_name(const IndexHints& hints) {
  std::vector<std::uint32_t> order(entries_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int names = entries_[a].name.compare(entries_[b].name);
    return names != 0 ? names < 0 : a < b;
  });
  const auto twice = std::adjacent_find(
      order.begin(), order.end(),
      [&](std::uint32_t a, std::uint32_t b) { return entries_[a].name == entries_[b].name; });
  if (twice != order.end()) throw stands_twice(entries_[*twice].name, *twice, *(twice + 1), hints);
  by_name_ = std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
}

const TensorEntry* FileIndex::find(std::string_view name) const noexcept {
  const auto at = std::lower_bound(
      by_name_->begin(), by_name_->end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return entries_[i].name < wanted; });
  if (at == by_name_->end() || entries_[*at].name != name) return nullptr;
  return &entries_[*at];
}

}  // namespace reshardfs
