// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/replicas/replica_check.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// What is about to be shown.
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

/// Looks in samples whether the replicas of what is shown are the same (see check_replicas()), and
/// does what `replicas` says where they are not. With other replicas than kSame none stands in for
/// another, but where all bytes were compared.
/// @throws Error kBadInput if they differ under kSame, or under kOwn a rank has none of its own;
///         what check_replicas() throws.
SettledReplicas settle_replicas(const ShownTables& shown, Replicas replicas);

/// @param differing at least one.
[[noreturn]] void refuse_replicas(const std::vector<ReplicaDisagreement>& differing,
                                  const SourceTable& source);

/// What the user is told under kFirst.
std::string lowest_rank_warning(const std::vector<const SourceParameter*>& differing);

}  // namespace reshardfs
