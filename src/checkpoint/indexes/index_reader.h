// SPDX-License-Identifier: Apache-2.0
/// Reads the indexes of many files, most of which are alike.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// Comparing one parameter takes about a microsecond, or a millisecond on slow storage.
inline constexpr std::size_t kCheapParameters = 200'000;

/// For each file of a set, the file whose index it shares because samples showed them to be alike.
using Likenesses = std::vector<std::optional<std::size_t>>;

/// Sets the index of each file, in parallel.
///
/// Files of the same size are often alike, such as the ranks of a pipeline stage. One of them is
/// read. In the others, everything except tensor contents is compared with it, and files that are
/// equal share its index. If that would still take long, only a part is compared, a different one
/// in each file, so that a difference between ranks shows in some of them; then they are compared
/// completely. The rest is compared at the first read of each file, which fails with kBadInput if
/// there is a difference.
/// @param files have source and path; source may be replaced by one that compares.
/// @param options with check_crc or examine_all, nothing is left for later.
/// @param cheap_parameters this many parameters, counted over all files, are always compared.
/// @return the files for which a part was left for later.
/// @throws errors of reading an index.
Likenesses read_indexes(std::vector<RankFile>& files, const CheckpointOptions& options,
                        std::size_t cheap_parameters = kCheapParameters);

}  // namespace reshardfs
