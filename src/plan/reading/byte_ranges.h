// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/target/shown_tensor.h"

namespace reshardfs {

/// `count` equally long pieces of a source file, `stride` bytes apart.
struct SourceRange {
  const RankFile* file = nullptr;
  ByteRange first;           ///< in the file, of the first piece
  std::uint64_t count = 1;   ///< of pieces
  std::uint64_t stride = 0;  ///< bytes between the starts of pieces, if count > 1
};

struct SourceRanges {
  std::vector<SourceRange> ranges;
  bool complete = true;  ///< false: the limit was reached, or elements are computed
};

/// The ranges of source files that a view reads, in the order of the destination; adjacent ranges
/// are joined. At most `limit` ranges. A piece that is spread over several records of the source
/// counts as one range from its first to its last byte.
SourceRanges source_ranges(const ShownTensor& view, std::size_t limit);

}  // namespace reshardfs
