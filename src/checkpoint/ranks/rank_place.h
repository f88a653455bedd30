// SPDX-License-Identifier: Apache-2.0
/// Directories that have one rank's files, by their names and by what lies beside them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/rank.h"

namespace reshardfs {

/// The name of a directory that may be a rank's: "rank_3", "node3", "mp_rank_03", "pp0_tp3".
struct RankName {
  std::string form{};  ///< the name with each number replaced
  std::vector<std::int64_t> numbers{};
  bool says_rank = false;  ///< not only sizes, as in "pp2_tp4"

  bool is_first() const noexcept;
};

/// nullopt if it is no such name.
std::optional<RankName> parse_rank_name(std::string_view name);

/// The directory above, as the user would write it: "a" for "a/b/", "./.." for ".". Empty: the
/// working directory.
std::filesystem::path path_above(const std::filesystem::path& path);

/// Whether the directory is a rank's, and others must be or are beside it.
bool is_rank_directory(const std::filesystem::path& directory);

/// "is of rank 3 alone, and set has ranks 0-3"
/// @param ranks ascending.
std::string one_rank_words(Rank rank, const std::filesystem::path& set,
                           const std::vector<Rank>& ranks);

/// The same of a directory by its name and those beside it. Empty unless directories of other ranks
/// with checkpoints lie beside it, that of the first one among them.
std::string rank_alone_words(const std::filesystem::path& directory);

/// A rank's directory is refused: its files look like a whole model.
/// @param source a directory. @throws Error kMissing.
void refuse_one_rank(const std::filesystem::path& source);

}  // namespace reshardfs
