// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/steps.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text/url_path.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/series/step_sets.h"
#include "checkpoint/set_format.h"
#include "checkpoint/source_links.h"

namespace reshardfs {

FilesByRank group_by_rank(const std::vector<FoundFile>& files) {
  FilesByRank by_rank;
  for (const FoundFile& file : files) by_rank[file.rank][file.step].push_back(file);
  return by_rank;
}

std::vector<StepInfo> describe_steps(const std::filesystem::path& root, const RankFiles& found) {
  std::map<std::string, StepInfo, OlderStep> by_name;
  std::set<Rank> ranks_with_steps;
  std::set<std::string, OlderStep> broken;
  for (const auto& [rank, by_step] : group_by_rank(found.files)) {
    for (const auto& [step, files] : by_step) {
      if (step.empty()) continue;
      StepInfo& info = by_name[step];
      info.ranks.push_back(rank);
      for (const FoundFile& file : files) {
        info.places.push_back(file.path);
        if (!is_url(file.path)) continue;
        info.listed_mtime_ns = std::max(info.listed_mtime_ns, known_mtime_ns(file.path, file.tree));
      }
      ranks_with_steps.insert(rank);
      if (rank_part_problem(root, files)) broken.insert(step);
    }
  }
  for (const FoundFile& file : found.unfinished) {
    if (file.step.empty()) continue;
    ranks_with_steps.insert(file.rank);
    broken.insert(file.step);
  }
  std::vector<StepInfo> steps;
  for (auto& [name, info] : by_name) {
    info.name = name;
    info.complete = info.ranks.size() == ranks_with_steps.size() && !broken.contains(name);
    steps.push_back(std::move(info));
  }
  return steps;
}

std::vector<Rank> ranks_without(const StepInfo& step, const RankRange& wanted) {
  const bool in_place = std::any_of(step.ranks.begin(), step.ranks.end(),
                                    [&](Rank rank) { return wanted.contains(rank); });
  std::vector<Rank> missing;
  for (const Rank rank : in_place ? wanted : RankRange(Rank(), wanted.size())) {
    if (!std::binary_search(step.ranks.begin(), step.ranks.end(), rank)) missing.push_back(rank);
  }
  return missing;
}

std::vector<StepInfo> find_steps(const std::filesystem::path& path,
                                 const CheckpointOptions& given) {
  const CheckpointOptions options = listed_once(path, given);
  if (auto described = find_described_steps(path, options)) return std::move(*described);
  const SourceFiles files = find_source_files(path, options);
  if (files.pattern.empty()) {
    auto beside = step_sets_beside_model(path, source_tree(path, options));
    if (!beside.empty()) return beside;
  }
  return describe_steps(path, files.found);
}

}  // namespace reshardfs
