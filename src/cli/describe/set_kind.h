// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

inline constexpr std::string_view kRankFiles = "rank_files";
inline constexpr std::string_view kOneFile = "one_file";
inline constexpr std::string_view kWholeModel = "whole_model";

struct SetKind {
  std::string kind;   ///< for programs
  std::string words;  ///< for people
};

/// What a checkpoint that can be opened is, by the names of its files.
/// @throws Error as CheckpointSet::open().
SetKind kind_of(const std::filesystem::path& source, const CheckpointOptions& options,
                const CheckpointSet& set);

}  // namespace reshardfs
