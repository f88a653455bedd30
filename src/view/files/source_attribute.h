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
/// where i counts in "files", offsets and lengths are bytes in the source file, and count and
/// stride stand only where more than one piece is meant. A parameter of too many pieces has the
/// first of them and a last element null; if all are too many, "parameters" is null.
std::string source_attribute(const TargetTable& target, Rank rank,
                             const std::vector<const TargetParameter*>& parameters);

/// Takes what a file has of a parameter, piece by piece.
using ViewVisitor = std::function<void(const std::string& name, const ShownTensor& view)>;
/// The same of a file that has other pieces of parameters than a rank's, perhaps several of one.
/// @param count of the pieces that for_each_view() visits.
std::string source_attribute(std::size_t count,
                             const std::function<void(const ViewVisitor& visit)>& for_each_view);

}  // namespace reshardfs
