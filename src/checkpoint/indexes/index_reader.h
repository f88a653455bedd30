// SPDX-License-Identifier: Apache-2.0
/// The indexes of many files, most of which are alike.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// Comparing one takes about a microsecond, and on a slow storage a thousand.
inline constexpr std::size_t kCheapParameters = 200'000;

/// Of each file of a set: the one whose index it was taken to have, since samples showed that it is
/// like it.
using Likenesses = std::vector<std::optional<std::size_t>>;

/// Sets the index of each file, in parallel.
///
/// Files of one size may be alike: the ranks of a pipeline stage are. One of them is read; in the
/// others all that is no content is compared with it, and those that are equal share its index.
/// Where that would still take long, a part of it is compared, another part in each file, so that
/// whatever distinguishes ranks is seen in some of them (and then they are compared as a whole).
/// The rest is compared when the file is read for the first time; what differs then fails that
/// read with kBadInput.
/// @param files with source and path; source may be replaced by one that compares.
/// @param options check_crc and examine_all: nothing is left for later.
/// @param cheap_parameters as many are compared in any case, counted in every file.
/// @return of which files a part was left for later.
/// @throws what reading an index throws.
Likenesses read_indexes(std::vector<RankFile>& files, const CheckpointOptions& options,
                        std::size_t cheap_parameters = kCheapParameters);

}  // namespace reshardfs
