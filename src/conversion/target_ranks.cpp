// SPDX-License-Identifier: Apache-2.0
#include "conversion/target_ranks.h"

#include <algorithm>
#include <string>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "conversion/option_words.h"
#include "conversion/wanted_views.h"

namespace reshardfs {

std::vector<Rank> ranks_to_show(std::vector<Rank> ranks, std::int64_t count) {
  const RankRange all(Rank(), count);
  if (ranks.empty()) return {all.begin(), all.end()};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  require_rank(ranks.back(), count);
  return ranks;
}

void require_own_ranks(const ConversionOptions& options, const TargetTable& target) {
  const auto& views = options.views;
  const auto whole = std::find_if(views.begin(), views.end(), has_one_value);
  if (whole != views.end()) {
    throw Error(ErrorKind::kUsage, std::string("--views ") + word_of(kViewWords, *whole) +
                                       " has each parameter once, but with --replicas own every "
                                       "rank has its own values")
        .hint("take --views ranks, or --replicas first");
  }
  const SourceTable& source = target.source();
  const std::int64_t ranks = source.states_layouts()
                                 ? source.ranks().all().size()
                                 : source.checkpoint().files().back().rank.number() + 1;
  if (ranks == target.rank_count()) return;
  throw Error(ErrorKind::kUsage, "--replicas own needs as many target ranks as the source has, " +
                                     std::to_string(ranks) + ", but the target has " +
                                     std::to_string(target.rank_count()))
      .hint("--replicas first gives all of them the lowest rank's values");
}

void require_own_files(const TargetTable& target, const std::vector<Rank>& ranks) {
  for (const Rank rank : ranks) {
    const Rank own = target.own_source_rank(rank);
    const CheckpointSet& checkpoint = target.source().checkpoint();
    if (checkpoint.find(own) != nullptr) continue;
    throw Error(
        ErrorKind::kMissing,
        "source rank " + to_string(own) +
            " is missing, and with --replicas own no other rank has the values for target rank " +
            to_string(rank))
        .in_file(checkpoint.root().string())
        .hint("bring its file, or leave the rank out with --ranks");
  }
}

void require_rank(Rank rank, std::int64_t count) {
  const RankRange all(Rank(), count);
  if (all.contains(rank)) return;
  throw Error(ErrorKind::kUsage, "there is no target rank " + to_string(rank) +
                                     ": the target has " + rank_words({all.begin(), all.end()}));
}

}  // namespace reshardfs
