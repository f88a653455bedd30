// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "storage/backend.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Caches a server's lists of a source, so that each directory is listed only once, several at a
/// time, or all in one list if the server can do that. Listed objects are opened without a request,
/// because the list states their size and version. Keep it only while a set is found and opened: it
/// does not notice later changes.
class RemoteTree final : public SourceTree {
 public:
  /// With more objects than this, each directory is listed separately.
  static constexpr std::size_t kMostAtOnce = 10'000;

  /// @param root a URL of a directory or an object. The constructor makes no request.
  explicit RemoteTree(const std::filesystem::path& root, std::size_t most_at_once = kMostAtOnce);

  ByteSourcePtr open_source(const std::filesystem::path& path) const override;
  std::vector<DirectoryEntry> list(const std::filesystem::path& path) const override;
  PathKind kind(const std::filesystem::path& path) const override;
  std::int64_t known_mtime_ns(const std::filesystem::path& path) const override;
  void foresee_lists(std::span<const std::filesystem::path> paths) const override;

 private:
  using Entries = std::map<std::string, DirectoryEntry>;

  void list_all() const;
  void add(ListedObject object) const;
  /// Whether everything below the root was listed at once, so that a path which is not in the list
  /// does not exist.
  bool knows(const std::filesystem::path& path) const;

  std::filesystem::path root_;
  std::size_t most_at_once_;
  const Backend& backend_;
  mutable std::mutex mutex_;  // guards all below
  mutable bool asked_ = false;
  mutable bool complete_ = false;
  mutable std::map<std::string, Entries> directories_;  ///< if complete: by path
  mutable std::map<std::string, ListedObject> objects_;
  mutable std::map<std::string, std::vector<DirectoryEntry>> listed_;  ///< if not: by path
};

}  // namespace reshardfs
