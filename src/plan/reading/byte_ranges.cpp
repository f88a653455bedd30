// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/byte_ranges.h"

#include <algorithm>

#include "checkpoint/appended_source.h"

namespace reshardfs {
namespace {

/// Where a byte of the content is stored.
std::uint64_t file_offset(const TensorEntry& entry, std::uint64_t content_offset) {
  for (const ByteRange& extent : entry.extents) {
    if (content_offset < extent.length()) return extent.offset() + content_offset;
    content_offset -= extent.length();
  }
  return 0;
}

SourceRange stored_range(const StridedRun& run) {
  const TensorEntry& entry = *run.holding.entry;
  const std::uint64_t scale = entry.encoding == ContentEncoding::kFloat32AsBFloat16 ? 2 : 1;
  const std::uint64_t first = file_offset(entry, run.source_offset * scale);
  const std::uint64_t last = file_offset(entry, (run.source_offset + run.length) * scale - 1);
  return {run.holding.file, ByteRange::between(first, last + 1), run.count,
          run.source_stride * scale};
}

/// Whether no file has the bytes.
bool is_computed(const SourceRange& range) {
  const auto* const source = dynamic_cast<const AppendedSource*>(range.file->source.get());
  return source != nullptr && range.first.end() > source->stored_bytes();
}

/// Makes one range of two that stand side by side.
bool join(SourceRange& before, const SourceRange& next) {
  const bool neighbours = before.file == next.file && before.count == 1 && next.count == 1 &&
                          before.first.end() == next.first.offset();
  if (neighbours) before.first = ByteRange::between(before.first.offset(), next.first.end());
  return neighbours;
}

}  // namespace

SourceRanges source_ranges(const ShownTensor& view, std::size_t limit) {
  // A part at a time, so that a view of millions of runs is left early.
  constexpr std::uint64_t kPartBytes = 1 << 20;
  SourceRanges out;
  for (std::uint64_t offset = 0; offset < view.size() && out.complete; offset += kPartBytes) {
    const ByteRange part(offset, std::min(kPartBytes, view.size() - offset));
    view.for_each_run(part, [&](const StridedRun& run) {
      if (!run.holding) return;
      const SourceRange range = stored_range(run);
      if (!out.ranges.empty() && join(out.ranges.back(), range)) return;
      if (out.ranges.size() == limit || is_computed(range)) {
        out.complete = false;
      } else {
        out.ranges.push_back(range);
      }
    });
  }
  return out;
}

}  // namespace reshardfs
