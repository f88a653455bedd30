// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "export/folder.h"
#include "export/partial_file.h"
#include "export/target.h"

namespace reshardfs {

/// @throws Error kUsage if the file would be one of the source's.
void require_outside(const std::filesystem::path& file, const std::filesystem::path& source);

/// How files are written to a directory.
struct FolderWays {
  bool reflink = false;    ///< share blocks with the source
  bool checksums = false;  ///< sums of the files are needed
};

/// A directory: made if it is not there, and locked, so that two exports do not write the same
/// files at once. Files are hashed to know them, and what of them was written is known by block.
class FolderTarget final : public Target {
 public:
  /// @param source must not lie in the directory, nor the reverse: an export would find its own
  ///        files among the source's at the next start.
  /// @param lock shared, if other processes write other files of the same export.
  /// @throws Error kUsage if they overlap, it is no directory or it is in use; kIo.
  FolderTarget(const std::filesystem::path& path, const std::filesystem::path& source,
               LockMode lock, const FolderWays& ways = {});

  const Words& words() const override;
  std::filesystem::path shown(const std::string& path) const override;
  Listing list(const std::set<std::string>& paths) const override;
  std::set<std::string> removable(const Manifest::Entries& listed,
                                  const std::vector<ConversionSource>& sources) const override;
  void remove_files(const std::set<std::string>& paths) const override;
  std::vector<std::string> names(const std::string& prefix) const override;
  std::optional<std::string> read(const std::string& name, std::string_view end) const override;
  void put(const std::string& name, const std::string& text) const override;
  void remove(const std::string& name) const override;
  std::unique_ptr<Claim> claim(const std::optional<Share>& share) const override;
  bool revoke(const std::string& name) const override;
  OutputFiles choose(const OutputFiles& files, const Listing& there, bool force, Manifest& manifest,
                     const BlockEngineOptions& engine) const override;
  WriteJobs jobs(const OutputFiles& files, const OutputFiles& pending, bool replace,
                 Manifest& manifest, const BlockEngineOptions& engine,
                 std::vector<std::string>& warnings) const override;
  void sync(const OutputFiles& files) const override;

 private:
  std::optional<Found> look_at(const std::filesystem::path& path) const;
  std::set<std::filesystem::path> remove_left(const OutputFiles& files,
                                              const OutputFiles& pending) const;
  void require_space(const OutputFiles& pending,
                     const std::set<std::filesystem::path>& begun) const;
  Writers writers() const { return lock_ == LockMode::kShared ? Writers::kMany : Writers::kOne; }

  Folder folder_;
  LockMode lock_;
  FolderWays ways_;
};

}  // namespace reshardfs
