// SPDX-License-Identifier: Apache-2.0
/// The ranks of a destination that are shown, and those of the source that are theirs.
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/conversion_options.h"
#include "reshardfs/rank.h"

#include "plan/target/target_table.h"

namespace reshardfs {

/// @param ranks as the user lists them; empty: all.
/// @param count of the target's ranks.
/// @return ascending, each once.
/// @throws Error kUsage for a rank that the target does not have.
std::vector<Rank> ranks_to_show(std::vector<Rank> ranks, std::int64_t count);

/// @throws Error kUsage where destination ranks have no source rank of their own.
void require_own_ranks(const ConversionOptions& options, const TargetTable& target);

/// @throws Error kMissing if a shown rank's own source rank has no file.
void require_own_files(const TargetTable& target, const std::vector<Rank>& ranks);

/// @throws Error kUsage if the target has no such rank. @param count of its ranks.
void require_rank(Rank rank, std::int64_t count);

}  // namespace reshardfs
