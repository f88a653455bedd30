// SPDX-License-Identifier: Apache-2.0
/// A cache of Hugging Face's hub has a directory for each model, models--<org>--<name>. In it are
/// snapshots/<commit>/ with the files of a revision, refs/<revision> with the commit that it stands
/// for, and blobs/, which the files of snapshots are links to. The format is that of the package
/// huggingface_hub.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace reshardfs {

/// The model and snapshot in a path, such as "a/models--org--name/snapshots/0123".
struct HubPlace {
  std::string model{};  ///< "org/name"
  std::string snapshot{};
};
std::optional<HubPlace> hub_place(const std::filesystem::path& path);

/// What a cache has of one model.
struct HubCache {
  std::string model{};           ///< "org/name"
  std::filesystem::path root{};  ///< the model's directory
  std::filesystem::path
      snapshots{};                   ///< the directory of the snapshots, as the user would write it
  std::vector<std::string> names{};  ///< of all snapshots, at least one
  std::string main{};                ///< the commit in refs/main; empty: there is none

  /// The snapshot that the cache stands for: the one that refs/main names, or the only one.
  std::optional<std::string> chosen() const;
};

/// @param named "models--org--name", or its snapshots/, as the user names it.
/// @return nullopt for other paths, and where there is no snapshot.
std::optional<HubCache> hub_cache(const std::filesystem::path& named);

/// Where the cache of this user has a model, or would have it: below $HF_HUB_CACHE, $HF_HOME/hub or
/// ~/.cache/huggingface/hub.
/// @param model "org/name"
std::filesystem::path hub_directory(const std::string& model);

/// The snapshot that a model's directory in a cache stands for, written as the user names the
/// directory. Any other path is returned as it is.
/// @throws Error kBadInput if the snapshot is not whole: a link in it leads nowhere, or the cache
///         has a download that has not ended; or if there are several snapshots, and refs/main
///         names none of them.
std::filesystem::path settled_source(const std::filesystem::path& named);

/// The same for what is not opened yet: where settled_source() throws, the path as it is. Whoever
/// opens it learns why.
std::filesystem::path snapshot_or(const std::filesystem::path& named);

/// Sentences about a source that is a snapshot: which one, and why that one is read. Empty for
/// other paths.
std::string snapshot_words(const std::filesystem::path& snapshot);

/// A line if the cache of a snapshot has a download that has not ended.
std::optional<std::string> unfinished_download(const std::filesystem::path& snapshot);

/// The directory outside of a snapshot that its links lead to; empty for other paths.
std::filesystem::path blobs_of_snapshot(const std::filesystem::path& path);

}  // namespace reshardfs
