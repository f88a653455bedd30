// SPDX-License-Identifier: Apache-2.0
/// Whether files that should hold the same slice do, found out in samples: comparing all would mean
/// to read the whole checkpoint.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "plan/source/source_table.h"

namespace reshardfs {

/// As many reads of so many bytes are made at most.
inline constexpr std::size_t kReplicaReads = 2000;
inline constexpr std::size_t kReplicaSampleBytes = 4096;

/// A parameter of which copies are to be compared.
struct ReplicatedParameter {
  const SourceParameter* source = nullptr;
  CellGridPtr grid;
  /// The files whose cells count; nullptr: all.
  std::shared_ptr<const std::set<const RankFile*>> cells{};
};

/// Two files that hold different bytes for the same.
struct ReplicaDisagreement {
  const SourceParameter* parameter = nullptr;
  Holding one;
  Holding other;
};

struct ReplicaFindings {
  /// The first one found of each parameter, in the order of the parameters.
  std::vector<ReplicaDisagreement> differing;
  /// Parameters of which every byte of every copy was compared and is the same.
  std::set<const SourceParameter*> equal;
  std::size_t unreadable = 0;  ///< samples: what cannot be read tells nothing
};

/// Compares everything where that takes no more than kReplicaReads; else spreads them over the
/// parameters, the files, and places in them: always the same ones. Without a strategy the begin of
/// each copy is compared in addition, as only that shows whether a parameter is whole. With a cache
/// on disk, that all were equal is kept there, and what it knows is not read again.
/// @throws Error kBadInput if a file is not like others that it was taken to be like; without a
///         strategy, what the sources throw.
ReplicaFindings check_replicas(const SourceTable& table,
                               const std::vector<ReplicatedParameter>& parameters);

}  // namespace reshardfs
