// SPDX-License-Identifier: Apache-2.0
#include "plan/source_ranks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "reshardfs/error.h"

#include "base/rank_list.h"

namespace reshardfs {
namespace {

/// Ranks that have files, but are none of these.
std::vector<Rank> others(const CheckpointSet& checkpoint, const RankRange& ranks) {
  std::vector<Rank> outside;
  for (const RankFile& file : checkpoint.files()) {
    const bool listed = !outside.empty() && outside.back() == file.rank;
    if (!listed && !ranks.contains(file.rank)) outside.push_back(file.rank);
  }
  return outside;
}

bool has_any(const CheckpointSet& checkpoint, const RankRange& ranks) {
  const auto& files = checkpoint.files();
  return std::any_of(files.begin(), files.end(),
                     [&](const RankFile& file) { return ranks.contains(file.rank); });
}

}  // namespace

SourceRanks::SourceRanks(const CheckpointSet& checkpoint)
    : all_(checkpoint.files().front().rank, 1) {}

SourceRanks::SourceRanks(const CheckpointSet& checkpoint, const Strategy& strategy)
    : all_(Rank(), strategy.rank_count()), devices_(strategy.devices_per_stage()) {
  const RankRange own(Rank(strategy.first_stage() * devices_), all_.size());
  if (own.first() > Rank() && has_any(checkpoint, own)) {
    all_ = own;
    return;
  }
  const std::vector<Rank> outside = others(checkpoint, all_);
  if (outside.empty()) return;
  throw Error(ErrorKind::kBadInput,
              "the source strategy is for " + std::to_string(all_.size()) + " ranks (" +
                  std::to_string(stages()) + " stages of " + std::to_string(devices_) +
                  " devices), but the checkpoint also has rank " + format_rank_list(outside))
      .in_file(checkpoint.files().front().path.parent_path().string())
      .hint("give the strategy that this checkpoint was saved with (--src-strategy)");
}

std::int64_t SourceRanks::stage_of(Rank rank) const noexcept {
  const std::int64_t above = rank - all_.first();
  return above / devices_ - (above % devices_ < 0 ? 1 : 0);
}

}  // namespace reshardfs
