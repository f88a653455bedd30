// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "cache/object_key.h"
#include "checkpoint/ranks/rank_file.h"

namespace reshardfs {

/// The identities of all files of a set, in their order. Nothing if a file has none.
std::optional<ObjectKey> set_identity(const std::vector<RankFile>& files);

}  // namespace reshardfs
