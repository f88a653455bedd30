// SPDX-License-Identifier: Apache-2.0
/// What maps do not read although it has to have certain values: copies in a source, which are
/// aliases of tensors, such as a tied head, elements that a map repeats, such as key heads, and
/// those that it fills in, such as zeros; and what several ranks hold without a strategy, of which
/// the first rank's tensors are taken for whole ones.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"
#include "reshardfs/conversion_options.h"

#include "conversion/model_maps.h"
#include "plan/mapped/equal_tensors.h"
#include "plan/replicas/replica_check.h"
#include "plan/source/source_table.h"

namespace reshardfs {

struct MapCopy {
  TensorPair pair;
  bool is_alias = false;  ///< false: elements that are repeated or filled in
  std::string what;       ///< describes the difference, if there is one
  std::string variable;   ///< for an alias: see modelmap::SourceAlias
};

struct MapCopies {
  std::vector<MapCopy> copies;
  std::vector<std::string> uncompared;                     ///< tensors without a known full copy
  std::vector<std::shared_ptr<const SourceTable>> kept{};  ///< own the names in the grids
};

/// Source tensors of which anything is shown that is asked for, by their numbers.
std::set<std::uint32_t> used_sources(const modelmap::Mapping& mapping,
                                     const MappedSourceOptions& options);

/// The copies that one map uses.
/// @param source the map's input. @param shown the map's result; nullptr: leave out elements that
///        are repeated or filled in.
/// @param options with which the map was applied.
/// @throws what check_mapping() and mapped_source() throw.
MapCopies map_copies(const modelmap::ModelMap& map, const modelmap::MapOptions& options,
                     const modelmap::Mapping& mapping,
                     const std::shared_ptr<const SourceTable>& source,
                     const std::shared_ptr<const SourceTable>& shown,
                     const std::vector<std::string>& state_prefixes);

/// Compares samples of the copies on which shown tensors depend.
/// @param shown of maps.apply().
/// @param wants the tensors to check, by either side's names; empty: all.
/// @return warnings about repeated elements that differ, with Replicas::kFirst.
/// @throws Error kBadInput if a copy differs; names its tensor.
std::vector<std::string> check_map_copies(const ModelMaps& maps, const ModelMaps::Result& shown,
                                          const MappedSourceOptions& options, Replicas replicas);

/// Compares samples of what the ranks hold; nothing where layouts are stated, or no map is given.
/// @return the parameters that differ.
/// @throws Error kBadInput under kSame if most matrices differ: then they are slices.
std::vector<ReplicaDisagreement> compare_mapped_ranks(const SourceTable& source,
                                                      const ModelMaps& maps, Replicas replicas);

/// @param differing of which only those count that are shown.
/// @return warnings, under kFirst.
/// @throws Error kBadInput under kSame if a tensor that is shown is made of one that differs.
std::vector<std::string> settle_mapped_ranks(const std::vector<ReplicaDisagreement>& differing,
                                             const ModelMaps::Result& shown,
                                             const MappedSourceOptions& options, Replicas replicas);

}  // namespace reshardfs
