// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "export/manifest.h"
#include "export/object_folder.h"
#include "export/share.h"

namespace reshardfs {

/// Whether an object is the one that the entry is about.
bool is_recorded(const S3Object& object, const Manifest::Entry& entry);

/// Writes SHA256SUMS, unless it has this text already. @throws Error kIo.
void write_object_sums(const ObjectFolder& folder, const std::string& text);

/// The sums of those of these entries whose objects are there. @throws Error kIo.
std::string sums_of_objects(const ObjectFolder& folder, const Manifest::Entries& entries);

/// Writes the sums of the files of all shares; whoever does writes the same.
/// @param known what was written beside the shares.
/// @return a share that is not complete yet, or has lost a file since; then nothing is written.
/// @throws Error kIo.
std::optional<Share> write_shared_object_sums(const ObjectFolder& folder,
                                              const nlohmann::ordered_json& identity,
                                              const SharePlan& own, const Manifest::Entries& known);

}  // namespace reshardfs
