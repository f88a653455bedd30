// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/target/target_table.h"

namespace reshardfs {

/// Where a file's bytes come from, as compact JSON of at most 64 KiB:
///   {"files": [{"file": path, "rank": r, "bytes": n}, ...],
///    "parameters": {"name": [{"file": i, "offset": o, "length": l, "count": c, "stride": s},
///    ...]}}
/// where i is an index in "files", and offsets and lengths are bytes in the source file. count and
/// stride are present only for more than one piece. If a parameter has too many pieces, its list
/// has the first ones and ends with null; if there are too many in all, "parameters" is null.
std::string source_attribute(const TargetTable& target, Rank rank,
                             const std::vector<const TargetParameter*>& parameters);

/// Receives the parts of a parameter that a file contains, one at a time.
using ViewVisitor = std::function<void(const std::string& name, const ShownTensor& view)>;
/// The same for a file whose parts of parameters are not a rank's slices; a parameter may have
/// several parts in it.
/// @param count the number of parts that for_each_view() visits.
std::string source_attribute(std::size_t count,
                             const std::function<void(const ViewVisitor& visit)>& for_each_view);

}  // namespace reshardfs
