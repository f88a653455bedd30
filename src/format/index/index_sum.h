// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "format/file_index.h"

namespace reshardfs {

/// A sum of all that an index says: equal for equal ones, and most likely for those alone.
std::uint64_t index_sum(const FileIndex& index);

}  // namespace reshardfs
