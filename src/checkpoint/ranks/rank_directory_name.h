// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace reshardfs {

/// The name of a rank's directory: "rank_3", "rank3", "node3" or "ckpt_3".
struct RankDirectoryName {
  std::string_view beginning;  ///< "rank_"
  std::int64_t rank = 0;
};

/// nullopt if it is no such name.
std::optional<RankDirectoryName> parse_rank_directory(std::string_view name);

/// The last number that follows "_rank_" in the name of a file: 3 in "llama_rank_3-3_100.ckpt".
/// nullopt if there is none, and for a LoRA adapter, whose name may have the rank of its matrices.
std::optional<std::int64_t> rank_in_file_name(std::string_view name);

/// Whether it is "_rank0_.safetensors" or such a name, as hyper-parallel gives a rank's file.
bool is_hyper_rank_name(std::string_view name);

}  // namespace reshardfs
