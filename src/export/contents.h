// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export/folder.h"
#include "export/target.h"

namespace reshardfs {

/// Target::choose() for targets that do not report versions of files: existing files are hashed and
/// compared with the manifest or, if it does not list the file, with the source.
OutputFiles choose_by_contents(const Target& target, const Folder& root, const OutputFiles& files,
                               const Target::Listing& there, bool force, Manifest& manifest,
                               const BlockEngineOptions& engine);

}  // namespace reshardfs
