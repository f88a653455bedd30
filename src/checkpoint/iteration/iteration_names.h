// SPDX-License-Identifier: Apache-2.0
/// The names in MindSpore Transformers' Checkpoint 2.0: directories of steps and files of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reshardfs/rank.h"

namespace reshardfs {

inline constexpr std::string_view kIterationMetadata = "metadata.json";
inline constexpr std::string_view kIterationCommon = "common.json";

/// "120" for "iteration_00000120". nullopt if it is not padded as the writer does.
std::optional<std::string> parse_iteration_directory(std::string_view name);

/// "[prefix-]model-0000003-0000008.safetensors", "opt" in place of "model".
struct IterationFile {
  Rank rank;
  std::int64_t count = 0;  ///< of files of this kind
  bool of_optimizer = false;
  std::string prefix;  ///< with its '-'; empty if there is none
};

std::optional<IterationFile> parse_iteration_file(std::string_view name);

}  // namespace reshardfs
