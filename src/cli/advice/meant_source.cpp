// SPDX-License-Identifier: Apache-2.0
#include "cli/advice/meant_source.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/ranks/rank_place.h"
#include "checkpoint/recognition.h"
#include "checkpoint/side_files.h"
#include "cli/describe/near_strategies.h"
#include "cli/describe/places.h"
#include "storage/local/directory.h"
#include "storage/local/hub_cache.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// @return paths as the user would write them; none if it cannot be listed.
std::vector<fs::path> subdirectories(const fs::path& directory) {
  std::vector<fs::path> paths;
  try {
    for (const std::string& name :
         directories_by_number(directory.empty() ? fs::path(".") : directory, nullptr)) {
      paths.push_back(directory / name);
    }
  } catch (const Error&) {
    return {};
  }
  return paths;
}

std::optional<fs::path> checkpoint_at(const fs::path& directory) {
  if (const auto cache = hub_cache(directory)) {
    const auto chosen = cache->chosen();
    return chosen && is_checkpoint(cache->snapshots / *chosen) ? std::optional(directory)
                                                               : std::nullopt;
  }
  if (rank_place(directory) || !is_checkpoint(directory) || is_strategy(directory)) {
    return std::nullopt;
  }
  return directory;
}

std::vector<fs::path> checkpoints_in(const fs::path& directory) {
  std::vector<fs::path> found;
  for (const fs::path& below : subdirectories(directory)) {
    if (auto checkpoint = checkpoint_at(below)) found.push_back(std::move(*checkpoint));
  }
  return found;
}

std::vector<fs::path> checkpoints_below(const fs::path& directory) {
  std::vector<fs::path> found = checkpoints_in(directory);
  if (!found.empty()) return found;
  for (const fs::path& below : subdirectories(directory)) {
    for (fs::path& checkpoint : checkpoints_in(below)) found.push_back(std::move(checkpoint));
  }
  return found;
}

/// Whether they are steps of one run: directories beside each other whose names differ in the
/// number at their end.
bool are_steps(const std::vector<fs::path>& paths) {
  const auto series = [](const fs::path& path) {
    const std::string text = path.string();
    return text.substr(0, text.find_last_not_of("0123456789") + 1);
  };
  return std::all_of(paths.begin(), paths.end(),
                     [&](const fs::path& path) { return series(path) == series(paths.front()); });
}

std::string relative_name(const fs::path& path, const fs::path& base) {
  const fs::path relative = path.lexically_relative(base);
  return relative.empty() ? path.string() : relative.string();
}

MeantSource one_of(const std::vector<fs::path>& found, const fs::path& base) {
  const std::string name = relative_name(found.front(), base);
  if (found.size() == 1) {
    return {found.front(), fmt::format("is not a checkpoint itself, but its directory '{}' is one",
                                       printable(name))};
  }
  std::vector<std::string> names;
  for (const fs::path& path : found) names.push_back(relative_name(path, base));
  MeantSource meant{{},
                    fmt::format("is not a checkpoint itself, but has {}: {}",
                                counted(found.size(), "checkpoint"), name_list(names))};
  if (are_steps(found)) {
    meant.source = found.front();
    meant.what += fmt::format("; the last is '{}'", printable(name));
  }
  return meant;
}

std::optional<MeantSource> of_rank(const fs::path& named) {
  const auto place = rank_place(named);
  if (!place) return std::nullopt;
  return MeantSource{.source = place->set,
                     .what = one_rank_words(place->rank, place->set, place->ranks),
                     .is_part = true};
}

/// The checkpoint of which a strategy is, if only one is near.
MeantSource of_strategy(const fs::path& named) {
  MeantSource meant{{}, "is a strategy, not a checkpoint", true};
  const fs::path above = path_above(named);
  if (is_checkpoint(above)) {
    meant.source = above.empty() ? fs::path(".") : above;
    return meant;
  }
  std::vector<fs::path> found = checkpoints_in(above);
  if (found.empty()) found = checkpoints_in(path_above(above));
  if (found.size() == 1) meant.source = found.front();
  return meant;
}

/// A directory as training on one device leaves it.
std::optional<MeantSource> of_plain_files(const fs::path& directory) {
  try {
    const std::vector<std::string> names = checkpoint_files_in(directory, nullptr, 2);
    if (names.size() != 1 || has_no_weights(names.front())) return std::nullopt;
    return MeantSource{directory / names.front(),
                       fmt::format("has one checkpoint, '{}'", printable(names.front()))};
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// A file of a set that is read by its directory: an index, a table.
std::optional<MeantSource> of_file(const fs::path& named,
                                   const std::function<bool(const fs::path&)>& opens) {
  const fs::path above = path_above(named);
  const fs::path directory = above.empty() ? fs::path(".") : above;
  if (!is_checkpoint(directory) || !opens(directory)) return std::nullopt;
  return MeantSource{.source = directory,
                     .what = fmt::format("is one file of a checkpoint, the directory {}",
                                         printable(directory.string())),
                     .is_part = true};
}

}  // namespace

std::optional<MeantSource> meant_source(const fs::path& named,
                                        const std::function<bool(const fs::path&)>& opens) {
  if (is_url(named)) return std::nullopt;
  const PathKind kind = path_kind(named);
  if (kind == PathKind::kMissing) return std::nullopt;
  if (kind != PathKind::kDirectory) {
    return is_strategy(named) ? of_strategy(named) : of_file(named, opens);
  }
  if (auto rank = of_rank(named)) return rank;
  if (!rank_alone_words(named).empty()) return std::nullopt;
  if (auto file = of_plain_files(named)) return file;
  const std::vector<fs::path> found = checkpoints_below(named);
  if (!found.empty()) return one_of(found, named);
  if (is_strategy(named)) return of_strategy(named);
  return std::nullopt;
}

}  // namespace reshardfs
