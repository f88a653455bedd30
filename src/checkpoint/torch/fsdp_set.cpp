// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/fsdp_set.h"

#include <map>
#include <string>
#include <string_view>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/series/unfinished_names.h"
#include "checkpoint/set_format.h"
#include "checkpoint/torch/torch_ranks.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRankFileExtension = ".pt";

/// "model_world_size_8_rank_3.pt"
struct RankFileName {
  std::int64_t world = 0;
  std::int64_t rank = 0;
};

std::optional<RankFileName> parse_name(std::string_view text) {
  constexpr std::string_view kBegin = "model_world_size_";
  constexpr std::string_view kRank = "_rank_";
  if (!text.starts_with(kBegin)) return std::nullopt;
  text.remove_prefix(kBegin.size());
  const auto world = take_number<std::int64_t>(text);
  if (!world || *world < 1 || !text.starts_with(kRank)) return std::nullopt;
  text.remove_prefix(kRank.size());
  const auto rank = take_number<std::int64_t>(text);
  if (!rank || *rank >= *world || text != kRankFileExtension) return std::nullopt;
  return RankFileName{*world, *rank};
}

/// The files by rank; empty if there are none.
/// @throws Error kBadInput if they are of several world sizes.
std::map<std::int64_t, std::string> find_files(const fs::path& directory, const SourceTreePtr& tree,
                                               std::int64_t& world) {
  std::map<std::int64_t, std::string> names;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    const auto name = entry.is_regular ? parse_name(entry.name) : std::nullopt;
    if (!name) continue;
    if (entry.is_link && refuses_links(tree)) throw link_refused(directory / entry.name);
    if (names.empty()) world = name->world;
    const bool is_new = names.emplace(name->rank, entry.name).second;
    if (name->world == world && is_new) continue;
    throw Error(ErrorKind::kBadInput, "has files of two saves: '" +
                                          printable(names.begin()->second) + "' and '" +
                                          printable(entry.name) + "'")
        .in_file(directory.string())
        .hint("keep the files of one of them");
  }
  return names;
}

}  // namespace

std::optional<Discovery> discover_fsdp(const fs::path& directory, const CheckpointOptions& options,
                                       const SourceTreePtr& tree) {
  std::int64_t world = 0;
  const auto names = find_files(directory, tree, world);
  if (names.empty()) return std::nullopt;
  if (options.step != kLatestStep) throw no_steps(directory);
  std::vector<Rank> missing;
  for (std::int64_t rank = 0; rank < world && static_cast<std::int64_t>(names.size()) < world;
       ++rank) {
    if (!names.contains(rank)) missing.emplace_back(rank);
    if (missing.size() > names.size() + 16) break;  // the number may be anything
  }
  if (!missing.empty()) {
    throw Error(ErrorKind::kMissing, "has files of " + counted(names.size(), "rank") + " of " +
                                         std::to_string(world) + ": " + rank_words(missing) +
                                         (missing.size() == 1 ? " has" : " have") + " none")
        .in_file(directory.string())
        .hint("bring the missing files, such as model_world_size_" + std::to_string(world) +
              "_rank_" + to_string(missing.front()) + ".pt");
  }
  TorchRanks ranks(directory, options, tree);
  ranks.open(names, DTensors::kPlaced, require_own_rank);
  Discovery out = ranks.discovery();
  out.completeness.grounds.push_back("the world size in " + counted(out.files.size(), "name"));
  return out;
}

std::optional<std::int64_t> fsdp_world_size(std::string_view name) {
  const auto parsed = parse_name(name);
  return parsed ? std::optional(parsed->world) : std::nullopt;
}

std::optional<std::vector<StepInfo>> find_fsdp_steps(const fs::path& directory,
                                                     const SourceTreePtr& tree) {
  std::int64_t world = 0;
  if (find_files(directory, tree, world).empty()) return std::nullopt;
  return std::vector<StepInfo>();
}

}  // namespace reshardfs
