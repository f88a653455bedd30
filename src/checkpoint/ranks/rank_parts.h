// SPDX-License-Identifier: Apache-2.0
/// Several files of one rank that belong together: "net-9_50_part0.ckpt", "net-9_50_part1.ckpt",
/// and "model-rank-0-part-0.safetensors" of vLLM and SGLang.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "checkpoint/ranks/rank_files.h"

namespace reshardfs {

/// The name of a rank's directory: "rank_3", "rank3", "node3" or "ckpt_3".
struct RankDirectoryName {
  std::string_view beginning;  ///< "rank_"
  std::int64_t rank = 0;
};

/// nullopt if it is no such name.
std::optional<RankDirectoryName> parse_rank_directory(std::string_view name);

/// A number that follows the word "rank" in the name of a file.
struct RankInName {
  std::int64_t rank = 0;
  std::size_t end = 0;  ///< behind its last digit
};

/// 3 in "llama_rank_3-3_100.ckpt" and in "model_rank3.pt", 3 and 0 in "tp_rank_3_pp_rank_0.pt".
/// None of a LoRA adapter, whose name may have the rank of its matrices.
std::vector<RankInName> ranks_in_file_name(std::string_view name);

/// Whether it is "_rank0_.safetensors", "_rank0_.bytes" or such a name, as hyper-parallel gives a
/// rank's files.
bool is_hyper_rank_name(std::string_view name);

struct RankPartName {
  std::string whole;       ///< the file name without its "_part<n>"
  std::int64_t part = -1;  ///< -1: none
  bool has_step = true;    ///< whether `whole` may end with a step: not in names of vLLM
};

/// The part is at the end of the name or before its step.
RankPartName rank_part_name(std::string_view file_name);

/// The reason why a rank's files of one step (at least one) are not a complete set: several files
/// that are not parts, or a part that is missing or occurs twice. nullopt if the set is complete.
std::optional<Error> rank_part_problem(const std::filesystem::path& root,
                                       const std::vector<FoundFile>& files);

}  // namespace reshardfs
