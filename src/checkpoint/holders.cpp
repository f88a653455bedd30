// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/holders.h"

#include <algorithm>

#include "base/rank_list.h"

namespace reshardfs {

void Holders::add(const Run& run) {
  if (run.count == 0) return;
  if (!runs_.empty()) {
    Run& last = runs_.back();
    if (last.entry == run.entry && last.first + last.count == run.first) {
      last.count += run.count;
      return;
    }
  }
  runs_.push_back(run);
}

std::size_t Holders::size() const noexcept {
  std::size_t count = 0;
  for (const Run& run : runs_) count += run.count;
  return count;
}

Holders Holders::within(const RankRange& ranks) const {
  Holders inside;
  for (const Run& run : runs_) {
    const RankFile* const last = run.first + run.count;
    const auto first_from = [&](Rank rank) {
      return std::partition_point(run.first, last,
                                  [rank](const RankFile& file) { return file.rank < rank; });
    };
    const RankFile* const from = first_from(*ranks.begin());
    inside.add({from, static_cast<std::size_t>(first_from(*ranks.end()) - from), run.entry});
  }
  return inside;
}

bool has_one_shape(const Holders& holders) {
  const auto& runs = holders.runs();
  return std::all_of(runs.begin(), runs.end(), [&](const Holders::Run& run) {
    return run.entry->shape == runs.front().entry->shape;
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
