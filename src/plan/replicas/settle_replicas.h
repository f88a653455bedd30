// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/replicas/replica_check.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// The tables that will be shown.
struct ShownTables {
  TargetTable& target;
  TargetTable* whole = nullptr;  ///< nullptr: the whole model is not shown
  const std::vector<Rank>& ranks;
};

/// Lines for the user.
struct SettledReplicas {
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

/// Checks the replicas of shown parameters with samples (see check_replicas()), and handles
/// differences as `replicas` says. Except under kSame, replicas stand in for each other only if all
/// their bytes were compared.
/// @throws Error kBadInput if replicas differ under kSame, or a rank has no replica of its own
///         under kOwn; errors of check_replicas().
SettledReplicas settle_replicas(const ShownTables& shown, Replicas replicas);

/// The error for ranks that hold slices whose layouts are not stated.
Error slices_without_strategy(const CheckpointSet& set);

/// @throws Error slices_without_strategy() if most matrices differ, and how they are cut is not
///         stated.
void refuse_slices(const std::vector<ReplicaDisagreement>& differing, const SourceTable& source);

/// @param differing must not be empty.
[[noreturn]] void refuse_replicas(const std::vector<ReplicaDisagreement>& differing,
                                  const SourceTable& source);

/// The warning for the user under kFirst.
std::string lowest_rank_warning(const std::vector<const SourceParameter*>& differing);

}  // namespace reshardfs
