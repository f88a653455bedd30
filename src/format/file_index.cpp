// SPDX-License-Identifier: Apache-2.0
#include "format/file_index.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "reshardfs/error.h"

namespace reshardfs {

FileIndex::FileIndex(std::vector<TensorEntry> entries) : entries_(std::move(entries)) {
  if (entries_.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kBadInput, "more parameters than 32-bit numbers can count");
  }
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return entries_[a].name < entries_[b].name; });
  const auto twice = std::adjacent_find(
      by_name_.begin(), by_name_.end(),
      [&](std::uint32_t a, std::uint32_t b) { return entries_[a].name == entries_[b].name; });
  if (twice != by_name_.end()) {
    throw Error(ErrorKind::kBadInput, "stands twice in one file")
        .for_parameter(entries_[*twice].name);
  }
}

const TensorEntry* FileIndex::find(std::string_view name) const noexcept {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return entries_[i].name < wanted; });
  if (at == by_name_.end() || entries_[*at].name != name) return nullptr;
  return &entries_[*at];
}

}  // namespace reshardfs
