// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "export/folder.h"
#include "export/manifest.h"
#include "export/share.h"

namespace reshardfs {

/// Every process that begins has looked at some of the other shares' manifests, so all that there
/// are should be the same. Many processes that look at as many manifests would be a burden.
inline constexpr std::size_t kMostManifestsLookedAt = 16;

/// Refuses a directory with a manifest of another number of shares.
[[noreturn]] void throw_other_split(const std::filesystem::path& manifest, const Share& share);

/// The manifests in a directory beside the one that an export is to have: those of other shares,
/// and that of an export that is not shared out.
class OtherManifests {
 public:
  /// Looks whether all of them are of the same conversion, and of the same number of shares.
  /// @param own the share that is exported; nothing: everything is, and shares are of any number.
  /// @param force those of other conversions, or of other numbers of shares, are removed, but for
  ///        those that another process is about to begin anew.
  /// @throws Error kUsage if one is not the same, or its process still runs; kIo.
  OtherManifests(const Folder& folder, const nlohmann::ordered_json& identity,
                 const std::optional<SharePlan>& own, bool force);

  /// What those have written that are not of this number of shares.
  const Manifest::Entries& known() const noexcept { return known_; }

  /// To be called when the own manifest has been locked: directories cannot be locked everywhere.
  /// Keeps an export that is not shared out from running beside a share, whichever began first.
  /// @throws Error kUsage if it does; kIo.
  void require_none_running();

 private:
  void examine_shares(bool force);
  void take_over(const Share& share, bool force);
  void examine_whole(bool force);
  /// @return false if that is no file of its own.
  bool remove(const std::string& name) const;

  const Folder& folder_;
  const nlohmann::ordered_json& identity_;
  const std::optional<SharePlan>& own_;
  Manifest::Entries known_;
  std::optional<Descriptor> whole_;  ///< keeps its lock
};

}  // namespace reshardfs
