// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "report/text/set_description.h"

namespace reshardfs {

/// What the metadata of a checkpoint's first file and the small files beside it say of the program
/// that wrote it. What cannot be read is left out.
std::vector<Statement> stated_writers(const std::filesystem::path& source,
                                      const CheckpointSet& set);

/// What the model's config.json says of it: model_type and architectures.
/// @param config see Completeness::config
void read_config_facts(const std::filesystem::path& config, ModelFacts& out);

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
