// SPDX-License-Identifier: Apache-2.0
/// What a path is a part of, and what it is where it is no checkpoint.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/rank.h"

#include "checkpoint/checkpoint_set.h"
#include "report/text/set_description.h"

namespace reshardfs {

/// The directory, or a file in it, of one rank of a checkpoint.
struct RankPlace {
  Rank rank{};
  std::filesystem::path set{};  ///< the checkpoint's directory, as the user would write it
  std::vector<Rank> ranks{};    ///< all of its ranks
  std::vector<std::filesystem::path> files{};  ///< of this rank, in the directory
};

/// Nothing if the path is none: judged by the names that lie above it.
/// @param named as the user names it.
std::optional<RankPlace> rank_place(const std::filesystem::path& named);

/// Sentences about what a checkpoint that can be opened is a part of; none if it stands for itself.
std::vector<std::string> places_of(const std::filesystem::path& named, const CheckpointSet& set);

/// Of a path that cannot be opened as a checkpoint, but is one's part, or holds one: what it is,
/// and commands that show the checkpoint.
std::optional<SetDescription> describe_part(const std::filesystem::path& named);

}  // namespace reshardfs
