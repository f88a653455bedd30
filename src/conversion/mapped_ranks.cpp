// SPDX-License-Identifier: Apache-2.0
#include "conversion/mapped_ranks.h"

#include <cstdint>
#include <set>
#include <utility>

#include "conversion/map_copies.h"
#include "plan/replicas/settle_replicas.h"

namespace reshardfs {

std::vector<ReplicaDisagreement> compare_mapped_ranks(const SourceTable& source,
                                                      const ModelMaps& maps, Replicas replicas) {
  if (maps.empty() || source.states_layouts()) return {};
  std::vector<ReplicatedParameter> copies;
  for (const SourceParameter& parameter : source.parameters()) {
    const bool is_alone = parameter.holders.size() == 1;
    if (!is_alone && parameter.grid && parameter.grid->cell_count() == 1)
      copies.push_back({&parameter, parameter.grid});
  }
  if (copies.empty()) return {};
  ReplicaFindings found = check_replicas(source, copies);
  if (replicas == Replicas::kSame && !found.differing.empty()) {
    refuse_slices(found.differing, source);
  }
  return std::move(found.differing);
}

std::vector<std::string> settle_mapped_ranks(const std::vector<ReplicaDisagreement>& differing,
                                             const ModelMaps::Result& shown,
                                             const MappedSourceOptions& options,
                                             Replicas replicas) {
  if (differing.empty()) return {};
  const SourceTable& source = *shown.sources.front();
  // What is asked for is known of the last map alone.
  const std::set<std::uint32_t> used = used_sources(
      shown.mappings.front(), shown.mappings.size() == 1 ? options : MappedSourceOptions());
  std::vector<ReplicaDisagreement> counting;
  std::vector<const SourceParameter*> parameters;
  for (const ReplicaDisagreement& one : differing) {
    const auto number = static_cast<std::uint32_t>(one.parameter - source.parameters().data());
    if (!used.contains(number)) continue;
    counting.push_back(one);
    parameters.push_back(one.parameter);
  }
  if (counting.empty()) return {};
  if (replicas == Replicas::kSame) refuse_replicas(counting, source);
  return {lowest_rank_warning(parameters)};
}

}  // namespace reshardfs
