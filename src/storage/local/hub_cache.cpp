// SPDX-License-Identifier: Apache-2.0
#include "storage/local/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "reshardfs/error.h"

#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr std::string_view kSnapshots = "snapshots";
constexpr std::string_view kBlobs = "blobs";
constexpr std::string_view kUnfinished = ".incomplete";

/// "org/name" for "models--org--name"; empty for other names.
std::string model_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  std::string model = name.substr(kPrefix.size());
  if (const std::size_t dashes = model.find("--"); dashes != std::string::npos) {
    model.replace(dashes, 2, "/");
  }
  return model;
}

std::vector<DirectoryEntry> entries_of(const fs::path& directory) {
  try {
    return list_directory(directory);
  } catch (const Error&) {
    return {};
  }
}

std::vector<std::string> directories_in(const fs::path& path) {
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries_of(path)) {
    if (entry.is_directory) names.push_back(entry.name);
  }
  return names;
}

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string main_commit(const fs::path& root) {
  constexpr std::uint64_t kMostBytes = 256;
  try {
    std::string name = read_small_file(root / "refs" / "main", kMostBytes);
    while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
    return name;
  } catch (const Error&) {
    return {};
  }
}

std::string download_words(const std::string& model) {
  return "run " + shell_line({"hf", "download", model});
}

/// A download into blobs/ that has not ended; empty: there is none.
fs::path unfinished_in(const fs::path& root) {
  for (const DirectoryEntry& entry : entries_of(root / kBlobs)) {
    if (entry.name.ends_with(kUnfinished)) return root / kBlobs / entry.name;
  }
  return {};
}

/// A link in a snapshot that leads nowhere, relative to it; empty: there is none.
/// @param depth how far below the snapshot the directory is; no model nests deeply.
fs::path broken_link_in(const fs::path& directory, const fs::path& below, int depth) {
  constexpr int kMostDepth = 16;
  for (const DirectoryEntry& entry : entries_of(directory)) {
    if (entry.is_link && !entry.is_directory && !entry.is_regular &&
        path_kind(directory / entry.name) == PathKind::kMissing) {
      return below / entry.name;
    }
    if (!entry.is_directory || entry.is_link || depth == kMostDepth) continue;
    fs::path found = broken_link_in(directory / entry.name, below / entry.name, depth + 1);
    if (!found.empty()) return found;
  }
  return {};
}

void require_whole_snapshot(const fs::path& snapshot, const std::string& model) {
  const fs::path broken = broken_link_in(snapshot, {}, 0);
  if (broken.empty()) return;
  std::error_code failed;
  const fs::path target = fs::read_symlink(snapshot / broken, failed);
  throw Error(ErrorKind::kBadInput, "the snapshot is not whole: its file is a link to '" +
                                        printable(target.string()) + "', which does not exist")
      .in_file((snapshot / broken).string())
      .hint(download_words(model));
}

void require_no_download(const HubCache& cache, const std::string& snapshot) {
  const fs::path unfinished = unfinished_in(cache.root);
  if (unfinished.empty()) return;
  throw Error(ErrorKind::kBadInput,
              "is a download that has not ended: the snapshot may lack this file")
      .in_file(unfinished.string())
      .hint(download_words(cache.model) + "; or name the snapshot itself if it is whole: " +
            printable((cache.snapshots / snapshot).string()));
}

Error undecided(const fs::path& named, const HubCache& cache) {
  const std::string main =
      cache.main.empty() ? "there is no refs/main" : "refs/main names none of them";
  return Error(ErrorKind::kBadInput, "has " + counted(cache.names.size(), "snapshot") + ", and " +
                                         main + ": " + name_list(cache.names))
      .in_file(named.string())
      .hint("name one of them, such as " +
            printable((cache.snapshots / cache.names.front()).string()));
}

/// Of a path that is a snapshot itself.
std::optional<HubPlace> place_of_snapshot(const fs::path& path) {
  auto place = hub_place(path);
  fs::path plain = path.lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  if (!place || plain.filename() != place->snapshot ||
      plain.parent_path().filename() != kSnapshots) {
    return std::nullopt;
  }
  return place;
}

}  // namespace

std::optional<HubPlace> hub_place(const fs::path& path) {
  const fs::path plain = path.lexically_normal();
  std::vector<std::string> names;
  for (const fs::path& name : plain) names.push_back(name.string());
  for (std::size_t i = 0; i + 2 < names.size(); ++i) {
    const std::string model = model_of(names[i]);
    if (!model.empty() && names[i + 1] == kSnapshots && !names[i + 2].empty()) {
      return HubPlace{model, names[i + 2]};
    }
  }
  return std::nullopt;
}

std::optional<std::string> HubCache::chosen() const {
  if (std::find(names.begin(), names.end(), main) != names.end()) return main;
  if (names.size() == 1) return names.front();
  return std::nullopt;
}

fs::path hub_directory(const std::string& model) {
  std::string name(kPrefix);
  for (const char c : model) name += c == '/' ? std::string("--") : std::string(1, c);
  const std::string cache = from_environment("HF_HUB_CACHE");
  if (!cache.empty()) return fs::path(cache) / name;
  const std::string home = from_environment("HF_HOME");
  if (!home.empty()) return fs::path(home) / "hub" / name;
  return fs::path(from_environment("HOME")) / ".cache/huggingface/hub" / name;
}

std::optional<HubCache> hub_cache(const fs::path& named) {
  if (is_url(named)) return std::nullopt;
  const fs::path real = real_path(named);
  const bool is_below = real.filename() == kSnapshots;
  HubCache cache;
  cache.root = is_below ? real.parent_path() : real;
  cache.model = model_of(cache.root.filename().string());
  if (cache.model.empty()) return std::nullopt;
  cache.snapshots = is_below ? named : named / kSnapshots;
  cache.names = directories_in(cache.snapshots);
  if (cache.names.empty()) return std::nullopt;
  cache.main = main_commit(cache.root);
  return cache;
}

fs::path settled_source(const fs::path& named) {
  if (is_url(named)) return named;
  if (const auto cache = hub_cache(named)) {
    const auto chosen = cache->chosen();
    if (!chosen) throw undecided(named, *cache);
    require_no_download(*cache, *chosen);
    require_whole_snapshot(cache->snapshots / *chosen, cache->model);
    return cache->snapshots / *chosen;
  }
  if (const auto place = place_of_snapshot(fs::absolute(named))) {
    require_whole_snapshot(named, place->model);
  }
  return named;
}

fs::path snapshot_or(const fs::path& named) {
  try {
    return settled_source(named);
  } catch (const Error&) {
    return named;
  }
}

std::string snapshot_words(const fs::path& snapshot) {
  if (is_url(snapshot)) return {};
  const auto place = place_of_snapshot(fs::absolute(snapshot));
  if (!place) return {};
  std::string words = "snapshot " + printable(place->snapshot) + " of " + printable(place->model) +
                      " in a cache of Hugging Face's hub";
  const auto cache = hub_cache(real_path(snapshot).parent_path());
  if (!cache) return words;
  if (cache->main == place->snapshot) return words + ", which refs/main names";
  if (cache->main.empty()) return words;
  return words + "; refs/main names " + printable(cache->main) +
         (cache->chosen() == cache->main ? "" : ", which is not there");
}

std::optional<std::string> unfinished_download(const fs::path& snapshot) {
  const fs::path blobs = blobs_of_snapshot(snapshot);
  if (blobs.empty()) return std::nullopt;
  const fs::path unfinished = unfinished_in(blobs.parent_path());
  if (unfinished.empty()) return std::nullopt;
  return printable(unfinished.string()) +
         " is a download that has not ended: the snapshot may lack this file";
}

fs::path blobs_of_snapshot(const fs::path& path) {
  if (is_url(path)) return {};
  const fs::path absolute = fs::absolute(path);
  if (!place_of_snapshot(absolute)) return {};
  return real_path(absolute).parent_path().parent_path() / kBlobs;
}

}  // namespace reshardfs
