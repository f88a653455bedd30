// SPDX-License-Identifier: Apache-2.0
/// Checks whether files that should hold the same slice do: all bytes of two holdings or of a grid,
/// or samples of a whole checkpoint, where comparing all bytes would require reading it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "plan/reading/content.h"
#include "plan/source/cell_grid.h"
#include "plan/source/source_table.h"

namespace reshardfs {

/// Whether two holdings have the same type, shape and bytes. Reads in blocks and stops at the
/// first difference.
/// @param limit compare at most this many bytes from the start.
bool content_equal(const Holding& a, const Holding& b,
                   std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());

/// Whether all files that hold the same cell of a grid have the same bytes of it. Reads them all.
bool are_replicas_equal(const CellGrid& grid);

/// At most kReplicaReads reads of kReplicaSampleBytes each are made.
inline constexpr std::size_t kReplicaReads = 2000;
inline constexpr std::size_t kReplicaSampleBytes = 4096;

/// A parameter whose copies are compared.
struct ReplicatedParameter {
  const SourceParameter* source = nullptr;
  CellGridPtr grid;
  /// The files to compare; nullptr: all.
  std::shared_ptr<const std::set<const RankFile*>> cells{};
};

/// Two files that hold different bytes of the same slice.
struct ReplicaDisagreement {
  const SourceParameter* parameter = nullptr;
  Holding one;
  Holding other;
};

struct ReplicaFindings {
  /// The first disagreement of each parameter, in the order of the parameters.
  std::vector<ReplicaDisagreement> differing;
  /// Parameters whose copies were compared completely and are equal.
  std::set<const SourceParameter*> equal;
  std::size_t unreadable = 0;  ///< number of samples that could not be read, and so prove nothing
};

/// Compares all bytes if this takes at most kReplicaReads reads. Otherwise it spreads the reads
/// over parameters, files, and offsets in them, always in the same way. Without a strategy it also
/// compares the beginning of each copy, because only this shows whether a parameter is whole. A
/// cache on disk remembers that all comparisons were equal, so that they are not made again.
/// @throws Error kBadInput if a file differs from the files whose index it shares; without a
///         strategy, errors of the sources.
ReplicaFindings check_replicas(const SourceTable& table,
                               const std::vector<ReplicatedParameter>& parameters);

}  // namespace reshardfs
