// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped_runs.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "plan/mapped_tensor.h"

namespace reshardfs {
namespace {

std::int64_t signed_of(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>(value);
}
std::uint64_t unsigned_of(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value);
}

class Walk {
 public:
  Walk(const GridSlice& slice, const std::function<void(const StridedRun&)>& visit)
      : slice_(slice),
        tensor_(*slice.grid.mapped()),
        visit_(visit),
        element_(element_size(slice.grid.dtype())),
        full_strides_(element_strides(slice.grid.full_shape())) {
    const Shape& full = slice.grid.full_shape();
    if (!full.empty()) run_dimension_ = full.size() - 1;
    // Dimensions that the slice has whole make one piece with the one before them.
    while (run_dimension_ > 0 && is_whole(run_dimension_)) {
      inner_ *= full[run_dimension_];
      --run_dimension_;
    }
    row_ = full.empty() ? 1 : inner_ * slice.shape[run_dimension_];
  }

  void visit_bytes(const ByteRange& bytes) {
    std::int64_t begin = signed_of(bytes.offset());
    const std::int64_t end = signed_of(bytes.end());
    // An element of which a part is wanted.
    if (begin % element_ != 0) begin = visit_part(begin, end);
    const std::int64_t whole_end = end - end % element_;
    if (begin < whole_end) {
      visit_elements(begin / element_, whole_end / element_);
      begin = whole_end;
    }
    if (begin < end) visit_part(begin, end);
  }

 private:
  bool is_whole(std::size_t d) const noexcept {
    const auto& segments = slice_.segments[d];
    return segments.size() == 1 && segments[0].length == slice_.grid.full_shape()[d];
  }

  /// Bytes [begin, end) that are in one element, or those up to its end. @return where it ends.
  std::int64_t visit_part(std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin / element_;
    const std::int64_t stop = std::min(end, (first + 1) * element_);
    skipped_ = unsigned_of(begin % element_);
    length_ = unsigned_of(stop - begin);
    visit_elements(first, first + 1);
    skipped_ = 0;
    length_ = 0;
    return stop;
  }

  /// Of the slice; each piece that is one range of the tensor.
  void visit_elements(std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      std::int64_t row = begin / row_;
      const std::int64_t column = begin % row_;
      std::int64_t first = 0;
      for (std::size_t d = run_dimension_; d-- > 0;) {
        const std::int64_t index = row % slice_.shape[d];
        row /= slice_.shape[d];
        const AxisSegment& segment = segment_at(slice_.segments[d], index);
        first += (segment.source_begin + index - segment.destination_begin) * full_strides_[d];
      }
      std::int64_t count = std::min(row_ - column, end - begin);
      if (!slice_.shape.empty()) {
        const AxisSegment& segment = segment_at(slice_.segments[run_dimension_], column / inner_);
        const std::int64_t segment_begin = segment.destination_begin * inner_;
        count = std::min(count, segment_begin + segment.length * inner_ - column);
        first += segment.source_begin * inner_ + column - segment_begin;
      }
      visit_range(first, count, begin);
      begin += count;
    }
  }

  void visit_range(std::int64_t first, std::int64_t count, std::int64_t destination) {
    const std::uint64_t offset = unsigned_of(destination * element_);
    tensor_.for_each_run(first, first + count, [&](StridedRun run) {
      run.destination_offset += offset + skipped_;
      std::vector<std::byte> part;
      if (length_ > 0) {
        run.length = length_;
        if (run.literal != nullptr) {
          const auto begin = run.literal->begin() + signed_of(skipped_);
          part.assign(begin, begin + signed_of(length_));
          run.literal = &part;
        } else {
          run.source_offset += skipped_;
        }
        run.source_stride = length_;
        run.destination_stride = length_;
      }
      visit_(run);
    });
  }

  const GridSlice& slice_;
  const MappedTensor& tensor_;
  const std::function<void(const StridedRun&)>& visit_;
  std::int64_t element_;
  std::vector<std::int64_t> full_strides_;
  std::size_t run_dimension_ = 0;
  std::int64_t inner_ = 1;     ///< elements of one index of that dimension
  std::int64_t row_ = 1;       ///< of all its indexes in the slice
  std::uint64_t skipped_ = 0;  ///< bytes of an element of which a part is wanted
  std::uint64_t length_ = 0;   ///< of this part; 0: whole elements
};

}  // namespace

void for_each_mapped_run(const GridSlice& slice, const ByteRange& bytes,
                         const std::function<void(const StridedRun&)>& visit) {
  if (bytes.length() > 0) Walk(slice, visit).visit_bytes(bytes);
}

}  // namespace reshardfs
