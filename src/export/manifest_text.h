// SPDX-License-Identifier: Apache-2.0
/// The text of manifests, wherever they are kept: see Manifest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "export/manifest.h"
#include "export/share.h"

namespace reshardfs {

/// The first line says of what conversion, and of what share, a manifest is.
nlohmann::ordered_json manifest_header(const nlohmann::ordered_json& identity,
                                       const std::optional<SharePlan>& plan);
/// A line, with its newline.
std::string manifest_line(const nlohmann::ordered_json& json);
std::string manifest_entry_line(const std::string& path, const Manifest::Entry& entry);
/// What a manifest that is complete ends with. It says of what: it is read alone.
/// @param header its first line.
std::string manifest_last_line(const std::string& header);

using IsSameHeader = std::function<bool(const nlohmann::ordered_json& header)>;
/// Accepts the manifest of these very files.
IsSameHeader same_files(const nlohmann::ordered_json& identity,
                        const std::optional<SharePlan>& plan);
/// Accepts shares of a conversion, of whatever files.
IsSameHeader same_conversion(const nlohmann::ordered_json& identity);

/// @param file for messages.
/// @param force begin anew in place of another conversion's
/// @param out is given the entries.
/// @return bytes up to the end of the last good line; 0: it has to begin anew.
/// @throws Error kUsage for another conversion's.
std::uint64_t parse_manifest(const std::filesystem::path& file, const std::string& text,
                             const IsSameHeader& is_same, const nlohmann::ordered_json& identity,
                             bool force, Manifest::Entries& out);

}  // namespace reshardfs
