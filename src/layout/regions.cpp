// SPDX-License-Identifier: Apache-2.0
#include "layout/regions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "layout/nest.h"

namespace reshardfs {
namespace {

using Lengths = std::span<const std::int64_t>;

/// Divides elements that follow one another.
class RunDivision {
 public:
  RunDivision(Lengths shape, Lengths strides, std::int64_t to, std::int64_t step, VisitRegion visit)
      : shape_(shape), strides_(strides), to_(to), step_(step), visit_(visit) {
    region_.ranges.resize(shape.size());
  }

  /// Elements [begin, end) of what the dimensions before `d` have at their index; at least one.
  void divide(std::size_t d, std::int64_t begin, std::int64_t end) {
    if (d == shape_.size()) return emit(1);
    const std::int64_t stride = strides_[d];
    const bool is_innermost = stride == 1;  // divisions are what this costs
    std::int64_t row = is_innermost ? begin : begin / stride;
    const std::int64_t head = begin - row * stride;
    const std::int64_t last = is_innermost ? end : end / stride;
    const std::int64_t tail = end - last * stride;
    if (head > 0) {
      set(d, row, 1);
      divide(d + 1, head, row == last ? tail : stride);
      ++row;
    }
    if (row < last) {
      set(d, row, last - row);
      for (std::size_t behind = d + 1; behind < shape_.size(); ++behind) {
        set(behind, 0, shape_[behind]);
      }
      emit((last - row) * stride);
    }
    if (row <= last && tail > 0) {
      set(d, last, 1);
      divide(d + 1, 0, tail);
    }
  }

 private:
  void set(std::size_t d, std::int64_t begin, std::int64_t count) noexcept {
    region_.ranges[d] = {begin, count, 1, strides_[d] * step_};
  }

  void emit(std::int64_t elements) {
    region_.to = to_;
    to_ += elements * step_;
    visit_(region_);
  }

  Lengths shape_;
  Lengths strides_;
  std::int64_t to_;
  std::int64_t step_;  ///< in the destination, from one element to the next
  VisitRegion visit_;
  Region region_;
};

class NestDivision {
 public:
  NestDivision(Lengths shape, VisitRegion visit)
      : shape_(shape), strides_(element_strides(shape)), visit_(visit) {}

  void divide(const Nest& nest) {
    Region region = first_of(nest);
    Along along(shape_.size());
    for (std::size_t i = 0; i < nest.loops().size(); ++i) {
      if (const auto other = place(nest.loops()[i], i, region, along)) {
        return go_through(nest, i, *other);
      }
    }
    visit_(region);
  }

 private:
  /// The number of the loop that goes along each dimension, from 1 on; 0: none.
  using Along = PerDimension<std::size_t>;

  Region first_of(const Nest& nest) const noexcept {
    Region region;
    region.to = nest.to;
    region.ranges.resize(shape_.size());
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      region.ranges[d].begin = nest.from / strides_[d] % shape_[d];
    }
    return region;
  }

  /// @return nothing if the loop goes along dimensions that no other one has taken; else the loop
  ///         that is in the way, or its own number.
  std::optional<std::size_t> place(const Nest::Loop& loop, std::size_t number, Region& region,
                                   Along& along) const {
    if (loop.from == 0) return number;
    const auto found = along_dimensions(loop.count, loop.from, shape_);
    if (!found) return number;
    std::int64_t to = loop.to;
    for (const DimensionLoop& part : *found) {
      IndexRange& range = region.ranges[part.dimension];
      if (along[part.dimension] != 0) return along[part.dimension] - 1;
      along[part.dimension] = number + 1;
      range = {range.begin, part.count, part.step, to};
      if (range.last() >= shape_[part.dimension]) return number;
      to *= part.count;
    }
    return std::nullopt;
  }

  /// Takes one loop index by index: the shorter one of two that are in each other's way.
  void go_through(Nest nest, std::size_t a, std::size_t b) {
    const auto loops = nest.loops();
    if (a == b && loops[a].from == 1) {
      if (loops.size() == 1) return divide_run(nest);
      // A run is divided once it is alone.
      a = b = a == 0 ? 1 : 0;
      for (std::size_t i = 0; i < loops.size(); ++i) {
        if (loops[i].from != 1 && loops[i].count < loops[a].count) a = b = i;
      }
    }
    const Nest::Loop loop = nest.take(loops[a].count <= loops[b].count ? a : b);
    for (std::int64_t i = 0; i < loop.count; ++i) {
      divide(nest);
      nest.from += loop.from;
      nest.to += loop.to;
    }
  }

  void divide_run(const Nest& nest) const {
    const Nest::Loop& run = nest.loops()[0];
    RunDivision(shape_, strides_, nest.to, run.to, visit_)
        .divide(0, nest.from, nest.from + run.count);
  }

  Lengths shape_;
  PerDimension<std::int64_t> strides_;
  VisitRegion visit_;
};

class SegmentCut {
 public:
  SegmentCut(Region& region, std::span<const std::vector<AxisSegment>> segments, VisitParts visit)
      : region_(region), segments_(segments), visit_(visit), at_(segments.size()) {}

  void cut() {
    if (segments_.empty()) return visit_(region_, at_);
    cut(0);
  }

 private:
  void cut(std::size_t d) {
    const bool is_last = d + 1 == segments_.size();
    const IndexRange whole = region_.ranges[d];
    const std::int64_t to = region_.to;
    const AxisSegment* segment = &segment_at(segments_[d], whole.begin);
    IndexRange& part = region_.ranges[d];
    for (std::int64_t done = 0;;) {
      const std::int64_t end = segment->destination_begin + segment->length;
      part.begin = whole.begin + done * whole.step;
      part.count = std::min(whole.count - done, steps_to(end - part.begin, whole.step));
      region_.to = to + done * whole.to;
      done += part.count;
      part.begin += segment->source_begin - segment->destination_begin;
      at_[d] = segment;
      if (is_last) {
        visit_(region_, at_);
      } else {
        cut(d + 1);
      }
      if (done == whole.count) break;
      const std::int64_t next = whole.begin + done * whole.step;
      ++segment;  // most often the next one has the next index
      if (segment->destination_begin + segment->length <= next) {
        segment = &segment_at(segments_[d], next);
      }
    }
    part = whole;
    region_.to = to;
  }

  /// The least number of steps that go at least so far.
  static std::int64_t steps_to(std::int64_t way, std::int64_t step) noexcept {
    return step == 1 ? way : (way + step - 1) / step;
  }

  Region& region_;
  std::span<const std::vector<AxisSegment>> segments_;
  VisitParts visit_;
  PerDimension<const AxisSegment*> at_;
};

/// The bounds of a region, as a set of boxes asks for them.
struct Bounds {
  explicit Bounds(const Region& region) noexcept
      : begin(region.ranges.size()), end(region.ranges.size()) {
    for (std::size_t d = 0; d < begin.size(); ++d) {
      begin[d] = region.ranges[d].begin;
      end[d] = region.ranges[d].last() + 1;
    }
  }
  BoxRange range() const noexcept { return {begin, end}; }

  PerDimension<std::int64_t> begin;
  PerDimension<std::int64_t> end;
};

bool clip_to_box(Region& region, const BoxRange& box) noexcept {
  for (std::size_t d = 0; d < box.begin.size(); ++d) {
    if (!region.clip(d, box.begin[d], box.end[d])) return false;
  }
  return true;
}

/// Cuts off what is on the one side of a box that it leaves. @return false if it does not leave it.
bool cut_off(const BoxRange& box, Region& inside, Region& outside) noexcept {
  for (std::size_t d = 0; d < box.begin.size(); ++d) {
    const std::int64_t begin = inside.ranges[d].begin;
    const std::int64_t end = inside.ranges[d].last() + 1;
    outside = inside;
    if (begin < box.begin[d]) {
      outside.clip(d, begin, box.begin[d]);
      return inside.clip(d, box.begin[d], end);
    }
    if (box.end[d] < end) {
      outside.clip(d, box.end[d], end);
      return inside.clip(d, begin, box.end[d]);
    }
  }
  return false;
}

}  // namespace

void for_each_region(const Nest& nest, Lengths shape, VisitRegion visit) {
  NestDivision(shape, visit).divide(nest);
}

void for_each_region(std::int64_t first, std::int64_t count, std::int64_t to, Lengths shape,
                     VisitRegion visit) {
  const auto strides = element_strides(shape);
  RunDivision(shape, strides, to, 1, visit).divide(0, first, first + count);
}

void for_each_segment(Region& region, std::span<const std::vector<AxisSegment>> segments,
                      VisitParts visit) {
  SegmentCut(region, segments, visit).cut();
}

void for_each_box(const Region& region, const BoxSet& boxes,
                  FunctionRef<void(const Region&, std::size_t number)> visit) {
  const Bounds bounds(region);
  boxes.visit(bounds.range(), [&](std::size_t number) {
    Region part = region;
    if (clip_to_box(part, boxes.range(number))) visit(part, number);
    return true;
  });
}

void for_each_gap(const Region& region, const BoxSet& boxes, VisitRegion visit) {
  std::vector<Region> parts{region};
  while (!parts.empty()) {
    Region part = parts.back();
    parts.pop_back();
    bool is_gap = true;
    const Bounds bounds(part);
    boxes.visit(bounds.range(), [&](std::size_t number) {
      Region shared = part;
      if (!clip_to_box(shared, boxes.range(number))) return true;
      is_gap = false;
      for (Region outside; cut_off(boxes.range(number), part, outside);) parts.push_back(outside);
      return false;
    });
    if (is_gap) visit(part);
  }
}

Nest nest_of(const Region& region, std::span<const std::int64_t> strides) noexcept {
  Nest nest;
  nest.to = region.to;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    const IndexRange& range = region.ranges[d];
    nest.from += range.begin * strides[d];
    nest.add({range.count, range.step * strides[d], range.to});
  }
  nest.join();
  return nest;
}

}  // namespace reshardfs
