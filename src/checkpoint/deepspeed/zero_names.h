// SPDX-License-Identifier: Apache-2.0
/// The names of the files that DeepSpeed's ZeRO saves for one step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "storage/source_tree.h"

namespace reshardfs {

/// "bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt", "mp_rank_00_model_states.pt"
struct ZeroFileName {
  bool optimizer = false;              ///< optim_states; else model_states
  std::optional<std::int64_t> data{};  ///< the rank of data parallelism; nullopt: of all of them
  std::int64_t model = 0;              ///< the rank of tensor parallelism
};

/// nullopt if it is no such name.
std::optional<ZeroFileName> parse_zero_name(std::string_view name);

/// The files of one stage of a pipeline; of runs without one, of the step.
struct ZeroFiles {
  /// Stages 1 and 2 have one for all ranks, under 0; stage 3 has one for each rank.
  std::map<std::int64_t, std::string> model;
  std::map<std::int64_t, std::string> optimizer;  ///< by the rank of data parallelism
  bool model_of_each_rank = false;
};

/// The files of experts, by the number of the layer among those with experts, and by expert.
using ZeroExperts = std::map<std::pair<std::int64_t, std::int64_t>, std::string>;

/// The files of one step.
struct ZeroStep {
  /// By the number behind mp_rank_: of a pipeline without tensor parallelism, its stages.
  std::map<std::int64_t, ZeroFiles> parts;
  /// Of a pipeline, by the number of the layer: its parameters under their local names.
  std::map<std::int64_t, std::string> layers;
  ZeroExperts experts{};
  bool has_other_experts = false;  ///< whose files have names that are not read
};

/// A refusal of tensor parallelism, of which no file states the cuts.
/// @param file one of a rank of it.
Error uncut_zero(const std::filesystem::path& directory, const std::string& file);

/// @return nullopt if the directory has none.
/// @throws Error kUnsupported if layers were saved with tensor parallelism;
///         kBadInput if two files are of one rank, or for a link if links are refused.
std::optional<ZeroStep> find_zero_files(const std::filesystem::path& directory,
                                        const SourceTreePtr& tree);

/// "500" for "global_step500".
std::optional<std::string> parse_zero_tag(std::string_view name);

/// "500" for "global_step500_universal".
std::optional<std::string> parse_universal_tag(std::string_view name);

}  // namespace reshardfs
