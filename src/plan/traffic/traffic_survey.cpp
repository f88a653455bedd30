// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/traffic_survey.h"

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

namespace reshardfs {

RankGroups::RankGroups(std::vector<Rank> ranks, std::size_t most) : ranks_(std::move(ranks)) {
  while (size() > most) group_size_ *= 2;
}

std::size_t RankGroups::position_of(Rank rank) const noexcept {
  return static_cast<std::size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) -
                                  ranks_.begin());
}

std::span<const Rank> RankGroups::group(std::size_t number) const noexcept {
  const std::size_t begin = number * group_size_;
  const std::size_t count = std::min(group_size_, ranks_.size() - begin);
  return std::span(ranks_).subspan(begin, count);
}

namespace {

std::vector<Rank> ranks_of(const CheckpointSet& checkpoint) {
  std::vector<Rank> ranks;
  for (const RankFile& file : checkpoint.files()) {
    if (ranks.empty() || ranks.back() != file.rank) ranks.push_back(file.rank);
  }
  return ranks;
}

/// Equal, or both nullptr.
template <typename Pointer>
bool same(const Pointer& a, const Pointer& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

bool same(const CellPattern& a, const CellPattern& b) {
  return &a == &b || (a.full_shape == b.full_shape && a.partitions == b.partitions &&
                      a.files == b.files && same(a.boxes, b.boxes) && a.mapped == b.mapped);
}

/// Whether both are read in the same way by every rank.
bool alike(const TargetParameter& a, const TargetParameter& b) {
  // A raw slice comes from whichever file holds it: there is no grid to compare.
  if (a.treatment == Treatment::kRaw || a.treatment != b.treatment) return false;
  return same(a.stages, b.stages) &&
         element_size(a.grid->dtype()) == element_size(b.grid->dtype()) &&
         elements_per_unit(a.grid->dtype()) == elements_per_unit(b.grid->dtype()) &&
         same(a.grid->pattern(), b.grid->pattern());
}

std::size_t hash_of(const TargetParameter& parameter) {
  auto hash = static_cast<std::size_t>(parameter.treatment);
  const auto mix = [&hash](std::size_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15U; };
  if (parameter.treatment == Treatment::kReshard) {
    for (const auto& slicing : parameter.cuts()) mix(std::hash<const void*>()(slicing.get()));
  }
  if (!parameter.grid) return hash;
  for (const std::int64_t size : parameter.grid->full_shape()) mix(static_cast<std::size_t>(size));
  mix(parameter.grid->cell_count());
  mix(std::hash<const void*>()(parameter.grid->cell(0).file));
  return hash;
}

void sort_into_kinds(const std::vector<TargetParameter>& parameters, TrafficSurvey& survey) {
  std::unordered_map<std::size_t, std::vector<std::size_t>> by_hash;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    std::vector<std::size_t>& candidates = by_hash[hash_of(parameters[p])];
    auto found = std::find_if(candidates.begin(), candidates.end(), [&](std::size_t kind) {
      return alike(parameters[survey.kinds[kind].first], parameters[p]);
    });
    if (found == candidates.end()) {
      found = candidates.insert(found, survey.kinds.size());
      survey.kinds.push_back({p, 0, {}});
    }
    ++survey.kinds[*found].count;
    survey.kind_of.push_back(*found);
  }
}

/// Adds what all parameters of a kind read, and notes their source ranks.
void add_traffic(const TargetTable& target, ParameterKind& kind, TrafficSurvey& survey) {
  const TargetParameter& parameter = target.parameters()[kind.first];
  std::set<Rank> sources;
  const std::vector<Rank>& ranks = survey.destinations.ranks();
  for (std::size_t row = 0; row < ranks.size(); ++row) {
    if (!target.has(parameter, ranks[row])) continue;
    target.view(parameter, ranks[row])
        .for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
          if (!holding || bytes == 0) return;
          sources.insert(holding.file->rank);
          const std::size_t column = survey.sources.position_of(holding.file->rank);
          const std::uint64_t all = bytes * kind.count;
          survey.group_bytes[survey.destinations.group_of(row) * survey.sources.size() +
                             survey.sources.group_of(column)] += all;
          survey.destination_bytes[row] += all;
          survey.source_bytes[column] += all;
          survey.total_bytes += all;
        });
  }
  kind.source_ranks.assign(sources.begin(), sources.end());
}

}  // namespace

TrafficSurvey survey_traffic(const TargetTable& target, std::vector<Rank> ranks,
                             std::size_t most_groups) {
  TrafficSurvey survey{RankGroups(std::move(ranks), most_groups),
                       RankGroups(ranks_of(target.source().checkpoint()), most_groups),
                       {},
                       {},
                       {},
                       0,
                       {},
                       {}};
  survey.group_bytes.resize(survey.destinations.size() * survey.sources.size());
  survey.destination_bytes.resize(survey.destinations.ranks().size());
  survey.source_bytes.resize(survey.sources.ranks().size());
  sort_into_kinds(target.parameters(), survey);
  for (ParameterKind& kind : survey.kinds) add_traffic(target, kind, survey);
  return survey;
}

}  // namespace reshardfs
