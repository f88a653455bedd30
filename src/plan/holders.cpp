// SPDX-License-Identifier: Apache-2.0
#include "plan/holders.h"

#include <algorithm>

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

Holders Holders::within(std::int64_t begin, std::int64_t end) const {
  Holders inside;
  for (const Run& run : runs_) {
    const RankFile* const last = run.first + run.count;
    const auto first_from = [&](std::int64_t rank) {
      return std::partition_point(run.first, last,
                                  [rank](const RankFile& file) { return file.rank < rank; });
    };
    const RankFile* const from = first_from(begin);
    inside.add({from, static_cast<std::size_t>(first_from(end) - from), run.entry});
  }
  return inside;
}

}  // namespace reshardfs
