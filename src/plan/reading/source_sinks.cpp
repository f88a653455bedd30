// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/source_sinks.h"

#include "plan/reading/content.h"

namespace reshardfs {
namespace {

// Gaps that are fetched with what is around them, and numbers that bound the time and memory to
// tell of ranges.
constexpr std::uint64_t kJoinedGap = 64 << 10;
constexpr std::uint64_t kMostOfOneRun = 4096;
constexpr std::size_t kMostRanges = 16384;

}  // namespace

void FarRanges::take(const Holding& holding, const StridedRanges& ranges) {
  const ByteSource* source = holding.file->source.get();
  if (!source->is_far()) return;
  std::vector<ByteRange>& wanted = ranges_[source];
  // What lies close together is fetched as one; and so is what consists of too many ranges.
  const bool joined =
      ranges.stride() - ranges.length() <= kJoinedGap || ranges.count() > kMostOfOneRun;
  const std::uint64_t count = joined ? 1 : ranges.count();
  for (std::uint64_t i = 0; i < count && wanted.size() < kMostRanges; ++i) {
    add_stored_ranges(*holding.entry,
                      joined ? ranges.span() : ByteRange(ranges.offset_of(i), ranges.length()),
                      wanted);
  }
}

void FarRanges::take(const ByteSource& source, const ByteRange& range) {
  if (source.is_far()) ranges_[&source].push_back(range);
}

std::uint64_t FarRanges::foresee(Foresight when) const {
  std::uint64_t bytes = 0;
  for (const auto& [source, ranges] : ranges_) {
    for (const ByteRange& range : ranges) bytes += range.length();
    source->foresee(ranges, when);
  }
  return bytes;
}

StridedRanges ranges_of(const StridedRun& run) {
  return {ByteRange(run.source_offset, run.length),
          run.count,
          {.source = run.source_stride, .memory = run.destination_stride}};
}

}  // namespace reshardfs
