// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/turned_reader.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "layout/nest_copy.h"

namespace reshardfs {
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

/// The number of the loop that goes over a row of the source, which is none of the destination;
/// that of no loop if there is none.
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
