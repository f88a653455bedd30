// SPDX-License-Identifier: Apache-2.0
#include "view/dcp/dcp_plan.h"

#include <numeric>

#include "conversion/completeness.h"

namespace reshardfs {

BoxPlan box_plan(const ViewContext& context, const BoxScope& scope) {
  const std::int64_t shards = context.options.dcp_shards;
  if (shards == 0) {
    require_complete(*context.target, context.ranks);
    return BoxPlan::by_rank(context.target, scope);
  }
  const RankRange all(Rank(), context.target->rank_count());
  require_complete(*context.target, {all.begin(), all.end()});
  return BoxPlan::evenly(context.target, shards, scope);
}

std::vector<std::size_t> shown_files(const ViewContext& context, const BoxPlan& plan,
                                     const std::string& directory) {
  context.tell_left_out(*context.target, directory);
  std::vector<std::size_t> shown;
  if (context.options.dcp_shards > 0) {
    shown.resize(plan.file_count());
    std::iota(shown.begin(), shown.end(), std::size_t{0});
    return shown;
  }
  for (const Rank rank : context.ranks) shown.push_back(static_cast<std::size_t>(rank.number()));
  if (shown.size() < plan.file_count()) {
    context.warnings.push_back(directory +
                               " has only the files of --ranks, which are a part of a checkpoint");
  }
  return shown;
}

}  // namespace reshardfs
