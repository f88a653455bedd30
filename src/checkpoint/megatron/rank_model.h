// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/megatron/rank_directory.h"
#include "checkpoint/megatron/rank_file.h"
#include "checkpoint/ranks/discovery.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// The file of one rank that was read.
struct MegatronRankContent {
  std::string directory{};  ///< its name: "mp_rank_01_002"
  ByteSourcePtr file{};
  MegatronRankFile saved{};
};

/// The sizes that the arguments state.
/// @throws Error kUnsupported, without the file, if they state none, or forms of parallelism whose
///         cuts are not known; kBadInput if there are more than kMaxRanks ranks.
MegatronSizes sizes_of(const MegatronArgs& args);

/// Puts the model together from what all ranks have.
/// @param contents of the ranks of saving_ranks(), in their order.
/// @param out its files are those of the contents, in their order. Sets their contents, the
///        catalogue, and notes.
/// @throws Error kBadInput if they are not of one save, without the directory.
void join_megatron_ranks(std::vector<MegatronRankContent> contents, const MegatronSizes& sizes,
                         Discovery& out);

}  // namespace reshardfs
