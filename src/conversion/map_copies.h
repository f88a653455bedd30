// SPDX-License-Identifier: Apache-2.0
/// What a source has several times and maps read once: aliases of tensors, such as a tied head, and
/// elements that a map repeats, such as key heads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "conversion/model_maps.h"
#include "plan/mapped/equal_tensors.h"
#include "plan/source/source_table.h"

namespace reshardfs {

struct MapCopy {
  TensorPair pair;
  bool is_alias = false;  ///< else elements that are repeated
  std::string what;       ///< how they differ, if they do
  std::string variable;   ///< of an alias: see modelmap::SourceAlias
};

struct MapCopies {
  std::vector<MapCopy> copies;
  std::vector<std::string> uncompared;  ///< tensors that no full copy is known of
  std::vector<std::shared_ptr<const SourceTable>> kept{};  ///< whose names the grids have
};

/// Those of one map.
/// @param source that the map reads. @param shown by it; nullptr: elements are not asked for.
/// @param options that the map was applied with.
/// @throws what check_mapping() and mapped_source() throw.
MapCopies map_copies(const modelmap::ModelMap& map, const modelmap::MapOptions& options,
                     const modelmap::Mapping& mapping,
                     const std::shared_ptr<const SourceTable>& source,
                     const std::shared_ptr<const SourceTable>& shown,
                     const std::vector<std::string>& state_prefixes);

/// Looks in samples whether the copies are equal that what is shown depends on.
/// @param shown of maps.apply().
/// @param wants tensors that are asked for, by either side's name; empty: all.
/// @return warnings: under Replicas::kFirst, repeated elements that differ.
/// @throws Error kBadInput that names a tensor whose copy differs.
std::vector<std::string> check_map_copies(const ModelMaps& maps, const ModelMaps::Result& shown,
                                          const MappedSourceOptions& options, Replicas replicas);

}  // namespace reshardfs
