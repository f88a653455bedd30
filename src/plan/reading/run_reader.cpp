// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/run_reader.h"

#include <algorithm>
#include <vector>

#include "reshardfs/node_fetches.h"

#include "base/checked.h"
#include "layout/nest.h"
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
  RangesAhead far;
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

namespace {

/// Stays in a processor's own cache until it is transposed.
constexpr std::size_t kTileBytes = 256 << 10;

std::span<std::byte> tile() {
  thread_local std::vector<std::byte> buffer(kTileBytes);
  return buffer;
}

/// Two loops of a nest: elements of a row follow one another in the source, those of a column in
/// the destination.
struct Plane {
  Nest::Loop rows;     ///< Loop::to is 1
  Nest::Loop columns;  ///< Loop::from is 1
};

/// The number of the loop over a row of the source that is no row of the destination; the number
/// of loops if there is none.
std::size_t columns_of(const Nest& nest) noexcept {
  const auto loops = nest.loops();
  if (loops.empty() || loops[0].to != 1) return loops.size();
  std::size_t columns = 1;
  while (columns < loops.size() && loops[columns].from != 1) ++columns;
  const bool apart = columns < loops.size() && loops[0].from >= loops[columns].count;
  return apart ? columns : loops.size();
}

Plane take_plane(Nest& nest) noexcept {
  Plane plane;
  plane.columns = nest.take(columns_of(nest));
  plane.rows = nest.take(0);
  return plane;
}

class PlaneReader {
 public:
  PlaneReader(const SourceNest& source, std::uint64_t element, const Plane& plane,
              FunctionRef<void(const StridedRun&, std::span<std::byte>)> read)
      : source_(source), element_(element), plane_(plane), read_(read) {}

  /// @param from of the first element, in the cell's content.
  void read(std::int64_t from, std::byte* out) const {
    const auto most = static_cast<std::int64_t>(kTileBytes / element_);
    for (std::int64_t done = 0; done < plane_.columns.count; done += most) {
      const std::int64_t columns = std::min(most, plane_.columns.count - done);
      read_columns(from + done, columns, out + unsigned_of(done * plane_.columns.to) * element_);
    }
  }

 private:
  void read_columns(std::int64_t from, std::int64_t columns, std::byte* out) const {
    const std::uint64_t row_bytes = unsigned_of(columns) * element_;
    const auto at_once = static_cast<std::int64_t>(kTileBytes / row_bytes);
    for (std::int64_t row = 0; row < plane_.rows.count; row += at_once) {
      StridedRun rows{source_.holding, source_.cell};
      rows.count = unsigned_of(std::min(at_once, plane_.rows.count - row));
      rows.source_offset = unsigned_of(from + row * plane_.rows.from) * element_;
      rows.length = row_bytes;
      rows.source_stride = rows.count == 1 ? row_bytes : unsigned_of(plane_.rows.from) * element_;
      rows.destination_stride = row_bytes;
      const auto block = tile().first(static_cast<std::size_t>(rows.count * row_bytes));
      read_(rows, block);
      Nest turned;
      turned.add({static_cast<std::int64_t>(rows.count), columns, 1});
      turned.add({columns, 1, plane_.columns.to});
      copy_elements(block.data(), out + unsigned_of(row) * element_, turned, element_);
    }
  }

  const SourceNest& source_;
  std::uint64_t element_;
  Plane plane_;
  FunctionRef<void(const StridedRun&, std::span<std::byte>)> read_;
};

}  // namespace

bool is_turned(const Nest& nest) noexcept {
  return columns_of(nest) < nest.loops().size();
}

void for_each_turned_run(const SourceNest& source, std::uint64_t element,
                         FunctionRef<void(const StridedRun&)> visit) {
  Nest outer = source.nest;
  const Plane plane = take_plane(outer);
  StridedRun rows{source.holding, source.cell};
  rows.count = unsigned_of(plane.rows.count);
  rows.length = unsigned_of(plane.columns.count) * element;
  rows.source_stride = unsigned_of(plane.rows.from) * element;
  rows.destination_stride = rows.length;
  for_each_index(outer, [&](std::int64_t from, std::int64_t /*to*/) {
    rows.source_offset = unsigned_of(from) * element;
    visit(rows);
  });
}

void read_turned(const SourceNest& source, std::uint64_t element, std::byte* out,
                 FunctionRef<void(const StridedRun&, std::span<std::byte>)> read) {
  Nest outer = source.nest;
  const Plane plane = take_plane(outer);
  const PlaneReader reader(source, element, plane, read);
  for_each_index(outer, [&](std::int64_t from, std::int64_t to) {
    reader.read(from, out + unsigned_of(to - outer.to) * element);
  });
}

}  // namespace reshardfs
