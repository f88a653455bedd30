// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/megatron/rank_directory.h"

namespace reshardfs {

/// The process that saved a rank's directory, by the arguments in its file (args.rank).
struct SavingProcess {
  std::string directory{};
  MegatronRank rank{};                   ///< by the directory's name
  std::optional<std::int64_t> number{};  ///< nothing: unknown
};

/// Compares the numbers of processes with the places in the model that directories have by their
/// names. RankGenerator in megatron/core/parallel_state.py numbers processes by tensor rank first,
/// then expert rank, and by stage last, or before data parallelism. Converters, which save all
/// files in one process, state one number in all of them: then nothing is known.
/// @return whether the numbers prove the places.
/// @throws Error kBadInput if directories were exchanged, or are copies of each other.
bool require_places(const std::vector<SavingProcess>& processes, const MegatronSizes& sizes);

}  // namespace reshardfs
