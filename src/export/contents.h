// SPDX-License-Identifier: Apache-2.0
/// Files of an export that are told apart by their contents.
#pragma once

#include <string>

#include "reshardfs/virtual_file.h"

#include "export/content_hash.h"
#include "export/folder.h"
#include "export/target.h"

namespace reshardfs {

/// Whether a file of an export is not made of tensors: a text, or a file that passes through
/// unchanged. The identity of the conversion does not name what these are made of, so that views
/// can be exported one after another. A manifest is therefore trusted with them only as far as
/// their bytes are the same.
bool is_companion(const VirtualFile& file);

/// Of its bytes. @throws Error of read_at().
ContentSums sums_of(const VirtualFile& file, SumKinds kinds);

/// What tells a companion's version from others; empty for any other file.
std::string version_of(const VirtualFile& file);

/// Target::choose() for targets that do not report versions of files: existing files are hashed and
/// compared with the manifest or, if it does not list the file, with the source.
/// @param kind of the sums that the manifest is to have of them. kXxh3: or those that it has.
OutputFiles choose_by_contents(const Target& target, const Folder& root, const OutputFiles& files,
                               const Target::Listing& there, bool force, SumKinds kind,
                               Manifest& manifest, const BlockEngineOptions& engine);

}  // namespace reshardfs
