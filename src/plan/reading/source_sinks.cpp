// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/source_sinks.h"

#include <fcntl.h>

#include "base/posix/descriptor.h"
#include "plan/reading/content.h"

namespace reshardfs {
namespace {

// Gaps that are fetched with what is around them, of a far source and of pages of a file; and
// numbers that bound the time and memory to tell of ranges.
constexpr std::uint64_t kJoinedGap = 64 << 10;
constexpr std::uint64_t kFewPages = 16 << 10;
constexpr std::uint64_t kMostOfOneRun = 4096;
constexpr std::size_t kMostRanges = 16384;

/// Has the kernel begin to read, if the bytes are those of an open file.
void advise_pages(const ByteSource& source, const std::vector<ByteRange>& ranges) {
  const auto descriptor = source.descriptor();
  if (!descriptor) return;
  for (const ByteRange& range : ranges) {
    ::posix_fadvise(descriptor->get(), static_cast<off_t>(range.offset()),
                    static_cast<off_t>(range.length()), POSIX_FADV_WILLNEED);
  }
}

}  // namespace

void RangesAhead::take(const Holding& holding, const StridedRanges& ranges) {
  const ByteSource* source = holding.file->source.get();
  if (!wants(*source)) return;
  std::vector<ByteRange>& wanted = ranges_[source];
  const bool is_far = source->is_far();
  const std::uint64_t gap = is_far ? kJoinedGap : kFewPages;
  // What lies close together is fetched as one; and so is what needs too many requests.
  const bool joined =
      ranges.stride() - ranges.length() <= gap || (is_far && ranges.count() > kMostOfOneRun);
  const std::uint64_t count = joined ? 1 : ranges.count();
  for (std::uint64_t i = 0; i < count && wanted.size() < kMostRanges; ++i) {
    add_stored_ranges(*holding.entry,
                      joined ? ranges.span() : ByteRange(ranges.offset_of(i), ranges.length()),
                      wanted);
  }
}

void RangesAhead::take(const ByteSource& source, const ByteRange& range) {
  if (wants(source)) ranges_[&source].push_back(range);
}

std::uint64_t RangesAhead::foresee(Foresight when) const {
  std::uint64_t bytes = 0;
  for (const auto& [source, ranges] : ranges_) {
    for (const ByteRange& range : ranges) bytes += range.length();
    source->is_far() ? source->foresee(ranges, when) : advise_pages(*source, ranges);
  }
  return bytes;
}

StridedRanges ranges_of(const StridedRun& run) {
  return {ByteRange(run.source_offset, run.length),
          run.count,
          {.source = run.source_stride, .memory = run.destination_stride}};
}

}  // namespace reshardfs
