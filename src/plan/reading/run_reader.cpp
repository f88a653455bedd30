// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/run_reader.h"

#include <algorithm>
#include <vector>

#include "reshardfs/node_fetches.h"

#include "plan/reading/source_sinks.h"
#include "storage/strided_ranges.h"

namespace reshardfs {
namespace {

// Two blocks of this size stay in a processor's own cache, beside what they are copied to.
constexpr std::uint64_t kScratchBytes = 256 << 10;

// Gathering makes a map and fills its page tables, some microseconds for what lies close together
// and as much again for each range that lies far from the others.
constexpr std::uint64_t kGatherSpan = 32 << 10;
constexpr std::uint64_t kGatherStride = 32 << 10;
constexpr std::uint64_t kLongRange = 16 << 10;

/// Grows to the largest block that its thread has needed, at most kScratchBytes.
std::span<std::byte> scratch(std::size_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return std::span(buffer).first(bytes);
}

/// Whether to leave out what lies between the ranges, without a call for each.
bool is_worth_gathering(const StridedRanges& ranges) noexcept {
  return ranges.stride() > ranges.length() && ranges.length() < kLongRange &&
         ranges.stride() <= kGatherStride && ranges.span().length() > kGatherSpan;
}

void read_one_by_one(const Holding& holding, const StridedRanges& ranges, std::byte* out,
                     ReadBatch& batch) {
  for (std::uint64_t i = 0; i < ranges.count(); ++i) {
    const std::span range(out + ranges.out_offset_of(i), static_cast<std::size_t>(ranges.length()));
    read_content(holding, ranges.offset_of(i), range, batch);
  }
}

/// Of a far source all ranges are asked for before the first one is waited for.
void foresee_ranges(const StridedRun& run, const StridedRanges& ranges) {
  if (!run.holding.file->source->is_far()) return;
  FarRanges far;
  far.take(run.holding, ranges);
  far.foresee(Foresight::kNow);
}

void read_with_gaps(const Holding& holding, const StridedRanges& ranges, std::byte* out,
                    ReadBatch& batch) {
  const std::uint64_t at_once = kScratchBytes / ranges.stride();
  for (std::uint64_t i = 0; i < ranges.count(); i += at_once) {
    const StridedRanges part = ranges.part(i, at_once);
    const std::span<std::byte> block = scratch(static_cast<std::size_t>(part.span().length()));
    read_content(holding, part.offset(), block, batch);
    copy_ranges(block.data(), part, out + ranges.out_offset_of(i));
  }
}

}  // namespace

void read_run(const StridedRun& run, std::span<std::byte> out, ReadBatch& batch) {
  const bool dense = run.source_stride == run.length && run.destination_stride == run.length;
  if (run.count == 1 || dense) {
    return read_content(run.holding, run.source_offset,
                        out.first(static_cast<std::size_t>(run.count * run.length)), batch);
  }
  const StridedRanges ranges = ranges_of(run);
  if (is_worth_gathering(ranges) && gather_content(run.holding, ranges, out.data(), batch)) return;
  if (!batch.foreseen()) foresee_ranges(run, ranges);
  // A call to read one range costs as much as copying some 8 KiB. So ranges that lie further apart
  // are read one by one, closer ones together with what is between them.
  const auto read = ranges.stride() >= kJoinedStride ? read_one_by_one : read_with_gaps;
  read(run.holding, ranges, out.data(), batch);
}

}  // namespace reshardfs
