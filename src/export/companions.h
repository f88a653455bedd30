// SPDX-License-Identifier: Apache-2.0
/// Files of an export that are not made of tensors: texts, and files that pass through unchanged.
/// The identity of the conversion does not name what they are made of, so that views can be
/// exported one after another. A manifest is therefore trusted with them only as far as their bytes
/// are the same.
#pragma once

#include <string>

#include "reshardfs/virtual_file.h"

#include "export/content_hash.h"

namespace reshardfs {

bool is_companion(const VirtualFile& file);

/// Of its bytes. @throws Error of read_at().
ContentSums sums_of(const VirtualFile& file, SumKinds kinds);

/// What tells a companion's version from others; empty for any other file.
std::string version_of(const VirtualFile& file);

}  // namespace reshardfs
