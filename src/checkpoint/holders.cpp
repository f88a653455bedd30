// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/holders.h"

#include <algorithm>

#include "base/rank_list.h"

namespace reshardfs {

void Holders::add(const Row& row) {
  if (row.count == 0) return;
  if (empty()) {
    one_ = row;
    return;
  }
  Row& last = many() != nullptr ? many()->back() : one_;
  if (last.entry == row.entry && last.first + last.count == row.first) {
    last.count += row.count;
    return;
  }
  if (many() == nullptr) keep({one_});
  many()->push_back(row);
}

std::size_t Holders::size() const noexcept {
  std::size_t count = 0;
  for (const Row& row : rows()) count += row.count;
  return count;
}

Holders Holders::within(const RankRange& ranks) const {
  Holders inside;
  for (const Row& row : rows()) {
    const RankFile* const last = row.first + row.count;
    const auto first_from = [&](Rank rank) {
      return std::partition_point(row.first, last,
                                  [rank](const RankFile& file) { return file.rank < rank; });
    };
    const RankFile* const from = first_from(*ranks.begin());
    inside.add({from, static_cast<std::size_t>(first_from(*ranks.end()) - from), row.entry});
  }
  return inside;
}

bool has_one_shape(const Holders& holders) {
  const auto rows = holders.rows();
  return std::all_of(rows.begin(), rows.end(), [&](const Holders::Row& row) {
    return row.entry->shape == rows.front().entry->shape;
  });
}

std::string differing_words(const Holders& holders) {
  const auto same = [&](const Holding& a, const Holding& b) {
    return a.entry->dtype == b.entry->dtype && a.entry->shape == b.entry->shape;
  };
  const auto describe = [&](const Holding& like) {
    std::vector<Rank> ranks;
    for (const Holding& h : holders) {
      if (same(h, like)) ranks.push_back(h.file->rank);
    }
    return rank_words(ranks) + ": " + std::string(mindspore_name(like.entry->dtype)) + " " +
           to_string(like.entry->shape);
  };
  for (const Holding& holder : holders) {
    if (!same(holder, holders.front())) return describe(holders.front()) + "; " + describe(holder);
  }
  return describe(holders.front());
}

}  // namespace reshardfs
