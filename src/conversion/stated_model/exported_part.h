// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/source/source_table.h"

namespace reshardfs {

/// An export of ours whose options left out a part of the model, according to its manifest.
struct ExportedPart {
  /// Completes "unknown ...": "what --include '*layers.0*' of its export has left out (FILE)".
  std::string words{};
  /// Selects what the export has of the model, by the names in it; empty: its manifest does not
  /// tell.
  NameTaker takes{};
};

/// Nothing if no manifest in the directory of the source or above it says that it is one.
std::optional<ExportedPart> exported_part(const std::filesystem::path& source);

}  // namespace reshardfs
