// SPDX-License-Identifier: Apache-2.0
/// The manifests in a target beside the one that an export has.
#pragma once

#include <optional>
#include <string>

#include "export/manifest.h"
#include "export/manifest_text.h"
#include "export/share.h"
#include "export/target.h"

namespace reshardfs {

/// Those of other shares, and that of an export that is not shared out.
class OtherManifests {
 public:
  /// Looks whether all of them are of the same conversion, and of the same number of shares.
  /// @param own the share that is exported; nothing: everything is, and shares are of any number.
  /// @param force those of other conversions, or of other numbers of shares, are removed, but for
  ///        those that another process is about to begin anew.
  /// @throws Error kUsage if one is not the same, or its process still runs; kIo.
  OtherManifests(const Target& target, const std::string& identity,
                 const std::optional<SharePlan>& own, bool force);

  /// What those have written that are not of this number of shares.
  const Manifest::Entries& known() const noexcept { return known_; }

  /// Adds all that is known beside the own share: of shares, complete or not, as of now.
  /// @param force leave out what is of another conversion.
  /// @throws Error kUsage for another conversion, kIo.
  void add_all(Manifest::Entries& entries, bool force) const;

 private:
  void take_over(const std::string& name, bool force);
  std::optional<Manifest::Entries> read(const std::string& name, const IsSameHeader& is_same) const;

  const Target& target_;
  const std::string& identity_;
  const std::optional<SharePlan>& own_;
  Manifest::Entries known_;
};

/// The entries of a share's manifest if it says that all of the share is complete. Of one that does
/// not, only the end may be read.
/// @throws Error kIo; of Target::read().
std::optional<Manifest::Entries> read_complete_share(const Target& target,
                                                     const std::string& identity,
                                                     const SharePlan& share);

}  // namespace reshardfs
