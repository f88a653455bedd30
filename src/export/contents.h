// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export/content_hash.h"
#include "export/folder.h"
#include "export/target.h"

namespace reshardfs {

/// Target::choose() for targets that do not report versions of files: existing files are hashed and
/// compared with the manifest or, if it does not list the file, with the source.
/// @param kind of the sums that the manifest is to have of them. kXxh3: or those that it has.
OutputFiles choose_by_contents(const Target& target, const Folder& root, const OutputFiles& files,
                               const Target::Listing& there, bool force, SumKinds kind,
                               Manifest& manifest, const BlockEngineOptions& engine);

}  // namespace reshardfs
