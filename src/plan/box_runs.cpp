// SPDX-License-Identifier: Apache-2.0
#include "plan/box_runs.h"

#include <algorithm>
#include <array>
#include <span>

namespace reshardfs {
namespace {

/// One for each dimension, and one for the bytes of an element.
using Index = std::array<std::int64_t, kMaxDimensions + 1>;

/// [begin, end) in each dimension.
struct Bounds {
  Index begin{};
  Index end{};

  BoxRange range(std::size_t dimensions) const noexcept {
    return {std::span(begin).first(dimensions), std::span(end).first(dimensions)};
  }
};

/// The part of a range that a box has.
Bounds shared_part(const BoxRange& a, const BoxRange& b) noexcept {
  Bounds shared;
  for (std::size_t d = 0; d < a.begin.size(); ++d) {
    shared.begin[d] = std::max(a.begin[d], b.begin[d]);
    shared.end[d] = std::min(a.end[d], b.end[d]);
  }
  return shared;
}

std::int64_t elements_of(const BoxRange& range) noexcept {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < range.begin.size(); ++d) count *= range.end[d] - range.begin[d];
  return count;
}

std::uint64_t unsigned_of(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value);
}

class Runs {
 public:
  Runs(const GridSlice& slice, const std::function<void(const StridedRun&)>& visit)
      : grid_(slice.grid),
        boxes_(*slice.grid.boxes()),
        segments_(slice.segments),
        dimensions_(slice.shape.size()),
        visit_(visit) {
    std::copy(slice.shape.begin(), slice.shape.end(), extents_.begin());
    extents_[dimensions_] = element_size(grid_.dtype());
    strides_[dimensions_] = 1;
    for (std::size_t d = dimensions_; d-- > 0;) strides_[d] = strides_[d + 1] * extents_[d + 1];
  }

  void visit_bytes(const ByteRange& bytes) {
    visit_bytes(0, static_cast<std::int64_t>(bytes.offset()),
                static_cast<std::int64_t>(bytes.end()));
    flush();
  }

 private:
  /// @param begin, end bytes of what the dimensions before `d` have at their index in block_.
  void visit_bytes(std::size_t d, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    const std::int64_t stride = strides_[d];
    std::int64_t index = begin / stride;
    if (begin % stride != 0) {
      const std::int64_t stop = std::min(end - index * stride, stride);
      at_index(d, index);
      visit_bytes(d + 1, begin % stride, stop);
      ++index;
    }
    if (index > end / stride) return;
    if (index < end / stride) {
      block_.begin[d] = index;
      block_.end[d] = end / stride;
      for (std::size_t behind = d + 1; behind <= dimensions_; ++behind) {
        block_.begin[behind] = 0;
        block_.end[behind] = extents_[behind];
      }
      visit_segments(0);
    }
    if (end % stride != 0) {
      at_index(d, end / stride);
      visit_bytes(d + 1, 0, end % stride);
    }
  }

  void at_index(std::size_t d, std::int64_t index) {
    block_.begin[d] = index;
    block_.end[d] = index + 1;
  }

  /// All ranges of the full tensor that the block is, by the segments of dimension `d` and those
  /// behind it.
  void visit_segments(std::size_t d) {
    if (d == dimensions_) return visit_range();
    const auto& list = segments_[d];
    auto at = list.begin() + (&segment_at(list, block_.begin[d]) - list.data());
    for (; at != list.end() && at->destination_begin < block_.end[d]; ++at) {
      const std::int64_t begin = std::max(block_.begin[d], at->destination_begin);
      const std::int64_t end = std::min(block_.end[d], at->destination_begin + at->length);
      shift_[d] = at->source_begin - at->destination_begin;
      wanted_.begin[d] = begin + shift_[d];
      wanted_.end[d] = end + shift_[d];
      visit_segments(d + 1);
    }
  }

  void visit_range() {
    const BoxRange wanted = wanted_.range(dimensions_);
    std::int64_t left = elements_of(wanted);
    boxes_.visit(wanted, [&](std::size_t number) {
      const Bounds part = shared_part(wanted, boxes_.range(number));
      left -= elements_of(part.range(dimensions_));
      visit_part(number, boxes_.range(number), part);
      return true;
    });
    if (left > 0) visit_gaps();
  }

  /// What no box has: the range is cut along the boxes' sides until a part is in a box or in none.
  void visit_gaps() {
    std::vector<Bounds> parts{wanted_};
    while (!parts.empty()) {
      Bounds part = parts.back();
      parts.pop_back();
      const BoxRange range = part.range(dimensions_);
      bool is_gap = true;
      std::size_t cut = dimensions_;
      std::int64_t place = 0;
      boxes_.visit(range, [&](std::size_t number) {
        is_gap = false;
        const BoxRange box = boxes_.range(number);
        for (std::size_t d = 0; d < dimensions_ && cut == dimensions_; ++d) {
          const bool begins_inside = box.begin[d] > part.begin[d];
          if (!begins_inside && box.end[d] >= part.end[d]) continue;
          cut = d;
          place = begins_inside ? box.begin[d] : box.end[d];
        }
        return false;
      });
      if (is_gap) visit_part(boxes_.size(), range, part);
      if (cut == dimensions_) continue;
      parts.push_back(part);
      parts.back().begin[cut] = place;
      part.end[cut] = place;
      parts.push_back(part);
    }
  }

  /// @param cell its number, and where it is.
  /// @param part of the wanted range and of the cell.
  void visit_part(std::size_t cell, const BoxRange& place, const Bounds& part) {
    Index lengths{};    // of the part
    Index cell_size{};  // in elements; of an element, in bytes
    Index source{};     // strides in bytes
    lengths[dimensions_] = block_.end[dimensions_] - block_.begin[dimensions_];
    cell_size[dimensions_] = extents_[dimensions_];
    source[dimensions_] = 1;
    StridedRun run;
    run.cell = cell;
    run.holding = grid_.cell(cell);
    run.source_offset = unsigned_of(block_.begin[dimensions_]);
    run.destination_offset = unsigned_of(block_.begin[dimensions_]);
    for (std::size_t d = dimensions_; d-- > 0;) {
      lengths[d] = part.end[d] - part.begin[d];
      cell_size[d] = place.end[d] - place.begin[d];
      source[d] = source[d + 1] * cell_size[d + 1];
      run.source_offset += unsigned_of((part.begin[d] - place.begin[d]) * source[d]);
      run.destination_offset += unsigned_of((part.begin[d] - shift_[d]) * strides_[d]);
    }
    const auto is_whole = [&](std::size_t d) {
      return lengths[d] == cell_size[d] && lengths[d] == extents_[d];
    };
    // One piece: all dimensions behind k, and the indexes of dimension k.
    std::size_t k = dimensions_;
    run.length = unsigned_of(lengths[k]);
    while (k > 0 && is_whole(k)) run.length *= unsigned_of(lengths[--k]);
    // Equally far apart: those of the dimension before, and of all that are whole behind another.
    std::size_t outer = k;
    while (outer > 0 && lengths[outer - 1] == 1) --outer;
    run.source_stride = run.length;
    run.destination_stride = run.length;
    if (outer > 0) {
      --outer;
      run.count = unsigned_of(lengths[outer]);
      run.source_stride = unsigned_of(source[outer]);
      run.destination_stride = unsigned_of(strides_[outer]);
      while (outer > 0 && is_whole(outer)) run.count *= unsigned_of(lengths[--outer]);
    }
    visit_runs(run, outer, lengths, source);
  }

  /// The run at every index of the dimensions before `outer`.
  void visit_runs(const StridedRun& first, std::size_t outer, const Index& lengths,
                  const Index& source) {
    StridedRun run = first;
    Index at{};
    while (true) {
      add(run);
      std::size_t d = outer;
      while (d > 0) {
        --d;
        run.source_offset += unsigned_of(source[d]);
        run.destination_offset += unsigned_of(strides_[d]);
        if (++at[d] < lengths[d]) break;
        run.source_offset -= unsigned_of(source[d] * lengths[d]);
        run.destination_offset -= unsigned_of(strides_[d] * lengths[d]);
        at[d] = 0;
        if (d == 0) return;
      }
      if (outer == 0) return;
    }
  }

  /// Where whole rows of a box follow each other, those of several blocks are one piece.
  void add(const StridedRun& run) {
    const bool follows = pending_.count == 1 && run.count == 1 && pending_.cell == run.cell &&
                         pending_.source_offset + pending_.length == run.source_offset &&
                         pending_.destination_offset + pending_.length == run.destination_offset;
    if (!follows || pending_.length == 0) {
      flush();
      pending_ = run;
      return;
    }
    pending_.length += run.length;
    pending_.source_stride = pending_.length;
    pending_.destination_stride = pending_.length;
  }

  void flush() {
    if (pending_.length > 0) visit_(pending_);
  }

  const ShardGrid& grid_;
  const BoxSet& boxes_;
  const std::vector<std::vector<AxisSegment>>& segments_;
  std::size_t dimensions_;
  const std::function<void(const StridedRun&)>& visit_;
  Index extents_{};  ///< of the slice; of an element, in bytes
  Index strides_{};  ///< in the slice, in bytes
  Bounds block_;     ///< of the slice
  Bounds wanted_;    ///< of the full tensor: what of the block is in one segment of each dimension
  Index shift_{};    ///< from the slice's indexes to the full tensor's, in these segments
  StridedRun pending_;
};

/// The slice's bounds in the full tensor.
Bounds bounds_of(const GridSlice& slice) noexcept {
  Bounds bounds;
  for (std::size_t d = 0; d < slice.shape.size(); ++d) {
    bounds.begin[d] = slice.segments[d].front().source_begin;
    for (const AxisSegment& segment : slice.segments[d]) {
      bounds.begin[d] = std::min(bounds.begin[d], segment.source_begin);
      bounds.end[d] = std::max(bounds.end[d], segment.source_begin + segment.length);
    }
  }
  return bounds;
}

}  // namespace

void for_each_box_run(const GridSlice& slice, const ByteRange& bytes,
                      const std::function<void(const StridedRun&)>& visit) {
  if (bytes.length() == 0) return;
  Runs(slice, visit).visit_bytes(bytes);
}

Holding whole_box(const GridSlice& slice) noexcept {
  const bool one_range = std::all_of(slice.segments.begin(), slice.segments.end(),
                                     [](const auto& list) { return list.size() == 1; });
  if (!one_range) return {};
  const Bounds bounds = bounds_of(slice);
  const BoxRange wanted = bounds.range(slice.shape.size());
  Holding found;
  slice.grid.boxes()->visit(wanted, [&](std::size_t number) {
    const BoxRange box = slice.grid.boxes()->range(number);
    if (std::equal(box.begin.begin(), box.begin.end(), wanted.begin.begin()) &&
        std::equal(box.end.begin(), box.end.end(), wanted.end.begin())) {
      found = slice.grid.cell(number);
    }
    return false;
  });
  return found;
}

void for_each_box(const GridSlice& slice,
                  const std::function<void(const Holding&, std::uint64_t bytes)>& visit) {
  const auto element = unsigned_of(element_size(slice.grid.dtype()));
  const Bounds bounds = bounds_of(slice);
  auto left = unsigned_of(element_count(slice.shape));
  const BoxSet& boxes = *slice.grid.boxes();
  boxes.visit(bounds.range(slice.shape.size()), [&](std::size_t number) {
    // Both are products: what they share is one, too.
    const BoxRange box = boxes.range(number);
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < slice.shape.size(); ++d) {
      std::int64_t shared = 0;
      for (const AxisSegment& segment : slice.segments[d]) {
        shared +=
            std::max<std::int64_t>(0, std::min(box.end[d], segment.source_begin + segment.length) -
                                          std::max(box.begin[d], segment.source_begin));
      }
      elements *= shared;
    }
    if (elements == 0) return true;
    left -= unsigned_of(elements);
    visit(slice.grid.cell(number), unsigned_of(elements) * element);
    return true;
  });
  if (left > 0) visit({}, left * element);
}

}  // namespace reshardfs
