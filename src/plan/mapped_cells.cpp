// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped_cells.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "modelmap/dimension_loops.h"
#include "modelmap/form_operations.h"
#include "plan/mapped_tensor.h"

namespace reshardfs {
namespace {

std::uint64_t unsigned_of(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value);
}

/// `count` indices, `step` apart: of a dimension, or of elements.
struct Loop {
  std::int64_t count = 1;
  std::int64_t step = 1;
};

using Bytes = std::map<std::size_t, std::uint64_t>;  // by cell

/// Counts what boxes take from one source that is a product of cells.
class ProductCounter {
 public:
  ProductCounter(const ShardGrid& grid, std::size_t first_cell, Bytes& bytes)
      : grid_(grid),
        shape_(grid.full_shape()),
        strides_(element_strides(shape_)),
        first_cell_(first_cell),
        bytes_(bytes) {}

  /// @param times bytes of one element, as often as it is taken.
  /// @return false, and nothing is counted, if loops go over the end of a dimension.
  bool count(std::int64_t first, const std::vector<Loop>& loops, std::uint64_t times) {
    loops_.assign(shape_.size(), {});
    start_.assign(shape_.size(), 0);
    for (std::size_t d = 0; d < shape_.size(); ++d) start_[d] = first / strides_[d] % shape_[d];
    for (const Loop& loop : loops) {
      if (!place(loop)) return false;
    }
    parts_.assign(shape_.size(), {});
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      if (!count_parts(d)) return false;
    }
    add_cells(0, 0, times);
    return true;
  }

 private:
  /// @return false if the loop does not go along dimensions.
  bool place(const Loop& loop) {
    const auto found = modelmap::along_dimensions(loop.count, loop.step, shape_);
    if (!found) return false;
    for (const modelmap::DimensionLoop& along : *found) {
      loops_[along.dimension].push_back({along.count, along.step});
    }
    return true;
  }

  /// How many of a dimension's indices are in each of its parts.
  bool count_parts(std::size_t d) {
    std::vector<Loop>& loops = loops_[d];
    std::int64_t last = start_[d];
    for (const Loop& loop : loops) last += (loop.count - 1) * loop.step;
    if (last >= shape_[d]) return false;
    std::sort(loops.begin(), loops.end(), [](auto& a, auto& b) { return a.step > b.step; });
    visit_loops(d, 0, start_[d]);
    return true;
  }

  void visit_loops(std::size_t d, std::size_t depth, std::int64_t index) {
    const std::vector<Loop>& loops = loops_[d];
    if (depth + 1 < loops.size()) {
      for (std::int64_t i = 0; i < loops[depth].count; ++i) {
        visit_loops(d, depth + 1, index + i * loops[depth].step);
      }
      return;
    }
    const Loop inner = loops.empty() ? Loop{} : loops.back();
    const AxisPartition& partition = grid_.partitions()[d];
    for (std::int64_t done = 0; done < inner.count;) {
      const AxisInterval interval = partition.locate(index + done * inner.step);
      const std::int64_t left = interval.end - (index + done * inner.step);
      const std::int64_t count = std::min(inner.count - done, (left + inner.step - 1) / inner.step);
      parts_[d][interval.part] += unsigned_of(count);
      done += count;
    }
  }

  void add_cells(std::size_t d, std::int64_t cell, std::uint64_t bytes) {
    if (d == shape_.size()) {
      bytes_[first_cell_ + static_cast<std::size_t>(cell)] += bytes;
      return;
    }
    for (const auto& [part, count] : parts_[d]) {
      add_cells(d + 1, cell * grid_.partitions()[d].parts() + part, bytes * count);
    }
  }

  const ShardGrid& grid_;
  const Shape& shape_;
  std::vector<std::int64_t> strides_;
  std::size_t first_cell_;
  Bytes& bytes_;
  std::vector<std::vector<Loop>> loops_;  ///< along each dimension
  std::vector<std::int64_t> start_;
  std::vector<std::map<std::int64_t, std::uint64_t>> parts_;
};

class CellCounter {
 public:
  explicit CellCounter(const GridSlice& slice)
      : slice_(slice),
        tensor_(*slice.grid.mapped()),
        element_(unsigned_of(element_size(slice.grid.dtype()))) {}

  /// Each combination of segments is a box of the tensor.
  void count(std::size_t d, std::vector<modelmap::Slice>& ranges) {
    if (d == slice_.segments.size()) return count_range(ranges);
    for (const AxisSegment& segment : slice_.segments[d]) {
      ranges.push_back({segment.source_begin, segment.source_begin + segment.length, 1});
      count(d + 1, ranges);
      ranges.pop_back();
    }
  }

  const Bytes& bytes() const noexcept { return bytes_; }

 private:
  void count_range(const std::vector<modelmap::Slice>& ranges) {
    for (const modelmap::Box& box : modelmap::cut(tensor_.form(), ranges).boxes) {
      if (!box.is_literal()) count_box(box);
    }
  }

  void count_box(const modelmap::Box& box) {
    const auto source = static_cast<std::size_t>(box.source);
    const ShardGrid& grid = *tensor_.sources()[source];
    const std::size_t first_cell = tensor_.first_cell(source);
    if (grid.cell_count() == 1 && grid.mapped() == nullptr) {
      bytes_[first_cell] += unsigned_of(box.elements()) * element_;
      return;
    }
    std::uint64_t times = element_;
    std::vector<Loop> loops;
    for (const modelmap::BoxAxis& axis : box.axes) {
      if (axis.length() == 1) continue;
      if (axis.stride == 0) {
        times *= unsigned_of(axis.length());
      } else {
        loops.push_back({axis.length(), axis.stride});
      }
    }
    const bool is_product = grid.boxes() == nullptr && grid.mapped() == nullptr;
    if (is_product && ProductCounter(grid, first_cell, bytes_).count(box.base, loops, times)) {
      return;
    }
    std::sort(loops.begin(), loops.end(), [](auto& a, auto& b) { return a.step > b.step; });
    walk(TensorView(tensor_.sources()[source]), {first_cell, times / element_}, box.base, loops, 0);
  }

  struct Walked {
    std::size_t first_cell = 0;
    std::uint64_t times = 1;
  };

  /// Piece by piece.
  void walk(const TensorView& source, const Walked& walked, std::int64_t first,
            const std::vector<Loop>& loops, std::size_t depth) {
    const bool is_piece =
        depth == loops.size() || (depth + 1 == loops.size() && loops[depth].step == 1);
    if (!is_piece) {
      for (std::int64_t i = 0; i < loops[depth].count; ++i) {
        walk(source, walked, first + i * loops[depth].step, loops, depth + 1);
      }
      return;
    }
    const std::int64_t length = depth == loops.size() ? 1 : loops[depth].count;
    const ByteRange bytes(unsigned_of(first) * element_, unsigned_of(length) * element_);
    source.for_each_run(bytes, [&](const StridedRun& run) {
      if (run.literal != nullptr) return;
      bytes_[walked.first_cell + run.cell] += run.length * run.count * walked.times;
    });
  }

  const GridSlice& slice_;
  const MappedTensor& tensor_;
  std::uint64_t element_;
  Bytes bytes_;
};

}  // namespace

void for_each_mapped_cell(const GridSlice& slice,
                          const std::function<void(const Holding&, std::uint64_t bytes)>& visit) {
  CellCounter counter(slice);
  std::vector<modelmap::Slice> ranges;
  counter.count(0, ranges);
  for (const auto& [cell, bytes] : counter.bytes()) visit(slice.grid.cell(cell), bytes);
}

}  // namespace reshardfs
