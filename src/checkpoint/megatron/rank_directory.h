// SPDX-License-Identifier: Apache-2.0
/// The directories in which Megatron-LM's ranks save, in the format `torch`: get_checkpoint_name()
/// in megatron/training/checkpointing.py.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/known.h"

namespace reshardfs {

/// The file with the model in each of them.
inline constexpr std::string_view kMegatronRankFile = "model_optim_rng.pt";

/// The sizes of the kinds of parallelism by which a model is cut. At least 1 each.
struct MegatronSizes {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t expert = 1;
  /// The tensor parallelism of experts: that of all tensors, or 1.
  std::int64_t expert_tensor = 1;

  bool operator==(const MegatronSizes&) const = default;
};

/// A rank of the model's parallel groups.
struct MegatronRank {
  std::int64_t tensor = 0;
  std::int64_t stage = 0;
  std::int64_t expert = 0;

  auto operator<=>(const MegatronRank&) const = default;
};

/// {1, 2, 3} for "mp_rank_01_002_003"; nullopt if it is no such name.
std::optional<std::vector<std::int64_t>> parse_mp_rank(std::string_view name);

/// "mp_rank_01_002_003". Stage and expert are in the name only where there are several.
std::string mp_rank_name(const MegatronRank& rank, const MegatronSizes& sizes);

/// The rank that the numbers in a name stand for; unknown, with words that complete "its name ...",
/// if there are more or fewer than the sizes need, or one is too large.
Known<MegatronRank> megatron_rank(const std::vector<std::int64_t>& numbers,
                                  const MegatronSizes& sizes);

/// The ranks that have a directory, ascending. With experts that tensor parallelism does not cut,
/// the process r has the tensor rank r % tensor and the expert rank r % expert, so that some pairs
/// have none.
/// @param sizes whose product is at most kMaxRanks.
std::vector<MegatronRank> saving_ranks(const MegatronSizes& sizes);

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
