// SPDX-License-Identifier: Apache-2.0
/// The text of manifests in any kind of target: see Manifest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/json/json_value.h"
#include "export/manifest.h"
#include "export/share.h"

namespace reshardfs {

// Lines, each with its newline.

/// The first line states the conversion and the share of a manifest.
/// @param identity see conversion_identity().
std::string manifest_header(const std::string& identity, const std::optional<SharePlan>& plan);
/// @param strategy that the ranks are cut by, as MindSpore's JSON: see strategy_in_manifest().
std::string manifest_strategy_line(const std::string& strategy);
std::string manifest_entry_line(const std::string& path, const Manifest::Entry& entry);
/// The last line of a complete manifest. It repeats the conversion and share, because it can be
/// read without the rest.
/// @param header its first line.
std::string manifest_last_line(const std::string& header);

using IsSameHeader = std::function<bool(const JsonValue& header)>;
/// Accepts the manifest of these very files.
IsSameHeader same_files(const std::string& identity, const std::optional<SharePlan>& plan);
/// Accepts shares of a conversion, with any files.
IsSameHeader same_conversion(const std::string& identity);

/// @param file for messages.
/// @param force begin anew in place of another conversion's
/// @param out is given the entries.
/// @return bytes up to the end of the last good line; 0: it has to begin anew.
/// @throws Error kUsage for another conversion's.
std::uint64_t parse_manifest(const std::filesystem::path& file, const std::string& text,
                             const IsSameHeader& is_same, const std::string& identity, bool force,
                             Manifest::Entries& out);

}  // namespace reshardfs
