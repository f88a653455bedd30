// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/target_table.h"

namespace reshardfs {

/// Where a file's bytes come from, as compact JSON of at most 64 KiB:
///   {"files": [{"file": path, "rank": r, "bytes": n}, ...],
///    "parameters": {"name": [{"file": i, "offset": o, "length": l, "count": c, "stride": s},
///    ...]}}
/// where i counts in "files", offsets and lengths are bytes in the source file, and count and
/// stride stand only where more than one piece is meant. A parameter of too many pieces has the
/// first of them and a last element null; if all are too many, "parameters" is null.
std::string source_attribute(const TargetTable& target, Rank rank,
                             const std::vector<const TargetParameter*>& parameters);

}  // namespace reshardfs
