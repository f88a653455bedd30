// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "export/manifest.h"
#include "export/object_folder.h"
#include "export/share.h"

namespace reshardfs {

/// The manifests in an object store beside the one that an export is to have; see OtherManifests.
class OtherObjectManifests {
 public:
  /// @param objects with all manifests that are there.
  /// @throws Error kUsage if one is of another conversion or of other shares, unless `force`, with
  ///         which it is removed; kIo.
  OtherObjectManifests(const ObjectFolder& folder, const nlohmann::ordered_json& identity,
                       const std::optional<SharePlan>& own, const ObjectFolder::Objects& objects,
                       bool force);

  /// What those have written that are not of this number of shares.
  const Manifest::Entries& known() const noexcept { return known_; }

 private:
  void take_over(const std::string& name, bool force);

  const ObjectFolder& folder_;
  const nlohmann::ordered_json& identity_;
  const std::optional<SharePlan>& own_;
  Manifest::Entries known_;
};

/// The entries of a share's manifest.
/// @return nothing if there is none, or none of this conversion and these files.
/// @param complete whether it must say that its share is complete.
/// @throws Error kIo.
std::optional<Manifest::Entries> read_object_share(const ObjectFolder& folder,
                                                   const nlohmann::ordered_json& identity,
                                                   const SharePlan& share, bool complete);

}  // namespace reshardfs
