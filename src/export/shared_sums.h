// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "export/folder.h"
#include "export/manifest.h"
#include "export/share.h"

namespace reshardfs {

/// The sums of the files of all shares, which any process writes that finds all shares complete; if
/// several do, the same ones.
class SharedSums {
 public:
  /// @param known what was written beside the shares.
  SharedSums(const Folder& root, const nlohmann::ordered_json& identity, const SharePlan& own,
             const Manifest::Entries& known)
      : root_(root), identity_(identity), own_(own), known_(known) {}

  /// Adds what is known beside the own share, complete or not.
  /// @param force leave out what is of another conversion.
  /// @throws Error kUsage for another conversion, kIo.
  void add_others(Manifest::Entries& entries, bool force) const;

  /// Writes them, unless they are there already.
  /// @return a share that is not complete yet, or has lost a file since; then nothing is written.
  /// @throws Error kIo; kUsage if something else is in the way.
  std::optional<Share> write() const;

 private:
  bool is_there(const std::string& path, const Manifest::Entry& entry) const;
  bool has_text(const std::filesystem::path& name, const std::string& text) const;

  const Folder& root_;
  const nlohmann::ordered_json& identity_;
  const SharePlan& own_;
  const Manifest::Entries& known_;
};

}  // namespace reshardfs
