// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/places.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/posix/mount_table.h"
#include "base/rank_list.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "checkpoint/ranks/rank_place.h"
#include "checkpoint/ranks/source_pattern.h"
#include "checkpoint/set_format.h"
#include "cli/describe/near_strategies.h"
#include "storage/local/directory.h"
#include "storage/local/hub_cache.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

fs::path or_here(const fs::path& path) {
  return path.empty() ? fs::path(".") : path;
}

/// The place of a file that may itself be a link: where that is, not where it leads.
fs::path real_place(const fs::path& file) {
  const fs::path absolute = fs::absolute(file).lexically_normal();
  return real_path(absolute.parent_path()) / absolute.filename();
}

std::optional<RankPlace> rank_place_in(const fs::path& set, const fs::path& real) {
  std::optional<SourceFiles> found;
  try {
    found = find_known_pattern(or_here(set), nullptr);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!found) return std::nullopt;
  RankPlace place;
  place.set = or_here(set);
  std::set<Rank> ranks;
  for (const FoundFile& file : found->found.files) {
    ranks.insert(file.rank);
    const fs::path path = real_place(file.path);
    if (path != real && path.parent_path() != real) continue;
    place.rank = file.rank;
    place.files.push_back(file.path);
  }
  place.ranks = {ranks.begin(), ranks.end()};
  if (place.files.empty() || place.ranks.size() < 2) return std::nullopt;
  return place;
}

std::optional<std::string> step_sentence(const fs::path& named, const CheckpointSet& set) {
  const fs::path above = or_here(path_above(named));
  try {
    const fs::path files = set.files().front().path.parent_path();
    if (set.step().empty() || real_path(files) != real_path(named)) return std::nullopt;
    const auto steps = find_described_steps(above, {});
    if (!steps) return std::nullopt;
    std::vector<std::string> names;
    for (const StepInfo& step : *steps) names.push_back(step.name);
    if (std::find(names.begin(), names.end(), set.step()) == names.end()) return std::nullopt;
    return fmt::format("step {} of {}, which has {}: {}", set.step(), printable(above.string()),
                       counted(names.size(), "step"), fmt::join(names, ", "));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// By the kernel's list: nothing of the mount is touched.
std::optional<std::string> mount_sentence(const fs::path& named) {
  try {
    const fs::path real = real_path(named);
    for (const MountEntry& mount : reshardfs_mounts()) {
      const auto rest = real.lexically_relative(mount.mountpoint);
      if (rest.empty() || *rest.begin() == "..") continue;
      return fmt::format("{} of reshardfs at {}", rest == "." ? "a mount" : "in the mount",
                         printable(mount.mountpoint));
    }
  } catch (const Error&) {
    // Without the list nothing is known.
  }
  return std::nullopt;
}

NextCommand inspect_line(const std::string& job, const fs::path& path) {
  return {job, command_line("inspect", {path.string()})};
}

std::optional<SetDescription> describe_rank(const fs::path& named) {
  const auto place = rank_place(named);
  if (!place) return std::nullopt;
  SetDescription out;
  out.kind = "rank_directory";
  out.format =
      fmt::format("the directory of rank {} of {}, which has ranks {}", to_string(place->rank),
                  printable(place->set.string()), format_rank_list(place->ranks));
  out.next.push_back(inspect_line("look at the whole checkpoint", place->set));
  for (const fs::path& file : place->files) {
    if (out.next.size() < 3) out.next.push_back(inspect_line("look at one file", file));
  }
  return out;
}

/// A cache whose snapshots are all there is to choose from.
std::optional<SetDescription> describe_cache(const fs::path& named) {
  constexpr std::size_t kMost = 3;
  const auto cache = hub_cache(named);
  if (!cache || cache->chosen()) return std::nullopt;
  SetDescription out;
  out.kind = "hub_cache";
  out.format = fmt::format("what a cache of Hugging Face's hub has of {}: {}",
                           printable(cache->model), counted(cache->names.size(), "snapshot"));
  out.place.emplace_back(cache->main.empty() ? "no refs/main names one of the snapshots"
                                             : "refs/main names none of the snapshots");
  for (const std::string& name : cache->names) {
    if (out.next.size() < kMost)
      out.next.push_back(inspect_line("look at a snapshot", cache->snapshots / name));
  }
  return out;
}

}  // namespace

std::optional<RankPlace> rank_place(const fs::path& named) {
  if (is_url(named)) return std::nullopt;
  try {
    const bool is_directory = path_kind(named) == PathKind::kDirectory;
    const fs::path real = is_directory ? real_path(named) : real_place(named);
    const fs::path above = path_above(named);
    if (is_directory) {
      return parse_rank_name(real.filename().string()) ? rank_place_in(above, real) : std::nullopt;
    }
    if (auto place = rank_place_in(above, real)) return place;
    if (!parse_rank_name(real.parent_path().filename().string())) return std::nullopt;
    return rank_place_in(path_above(or_here(above)), real);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<std::string> places_of(const fs::path& named, const CheckpointSet& set) {
  std::vector<std::string> places;
  if (is_url(named)) return places;
  if (const auto place = rank_place(named)) {
    places.push_back(fmt::format("of rank {} alone: {} has ranks {}", to_string(place->rank),
                                 printable(place->set.string()), format_rank_list(place->ranks)));
  }
  if (auto step = step_sentence(named, set)) places.push_back(std::move(*step));
  // Links lead out of a snapshot: its name counts.
  if (std::string words = snapshot_words(set.root()); !words.empty()) {
    places.push_back(std::move(words));
  } else if (const auto hub = hub_place(fs::absolute(named))) {
    places.push_back(fmt::format("of snapshot {} of {} in a cache of Hugging Face's hub",
                                 printable(hub->snapshot), printable(hub->model)));
  }
  if (auto mount = mount_sentence(named)) places.push_back(std::move(*mount));
  return places;
}

std::optional<SetDescription> describe_part(const fs::path& named) {
  if (is_url(named)) return std::nullopt;
  if (auto rank = describe_rank(named)) return rank;
  return describe_cache(named);
}

}  // namespace reshardfs
