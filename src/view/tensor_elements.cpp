// SPDX-License-Identifier: Apache-2.0
#include "view/tensor_elements.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "plan/packed_units.h"

namespace reshardfs {
namespace {

/// Runs that are closer together than this are read with what lies between them: a page of the file
/// is read for each of them anyway.
constexpr std::uint64_t kSmallGap = 4096;
constexpr std::uint64_t kWindowBytes = std::uint64_t{256} << 10U;

std::uint64_t unsigned_of(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

}  // namespace

BoxLayout TensorElements::layout_of(const Shape& begin, const Shape& box) const {
  const auto unit = unsigned_of(element_size(view.dtype()));
  if (!is_packed(view.dtype())) return {view.shape(), begin, box, unit};
  try {
    const PackedUnits units(view.shape(), view.dtype());
    Box in_units = units.of(Box{begin, box});
    return {units.full_shape(), std::move(in_units.offsets), in_units.sizes, unit};
  } catch (Error& error) {
    throw error.for_parameter(name);
  }
}

BoxLayout::BoxLayout(const Shape& tensor, Shape begin, const Shape& box,
                     std::uint64_t element_bytes)
    : begin_(std::move(begin)), steps_(tensor.size()), run_bytes_(element_bytes) {
  std::uint64_t step = element_bytes;
  for (std::size_t d = tensor.size(); d-- > 0;) {
    steps_[d] = step;
    step *= unsigned_of(tensor[d]);
  }
  std::size_t outer = tensor.size();
  // All dimensions behind the last one that is cut are in a run, and so is that one.
  for (bool whole = true; outer > 0 && whole;) {
    --outer;
    run_bytes_ *= unsigned_of(box[outer]);
    whole = box[outer] == tensor[outer];
  }
  outer_.assign(box.begin(), box.begin() + static_cast<std::ptrdiff_t>(outer));
  for (const std::int64_t length : outer_) runs_ *= unsigned_of(length);
  if (outer > 0) run_distance_ = steps_[outer - 1];
}

std::uint64_t BoxLayout::begin_of_run(std::uint64_t run) const noexcept {
  std::uint64_t at = 0;
  for (std::size_t d = outer_.size(); d < begin_.size(); ++d) {
    at += unsigned_of(begin_[d]) * steps_[d];
  }
  for (std::size_t d = outer_.size(); d-- > 0;) {
    at += (unsigned_of(begin_[d]) + run % unsigned_of(outer_[d])) * steps_[d];
    run /= unsigned_of(outer_[d]);
  }
  return at;
}

std::uint64_t BoxLayout::runs_in_row(std::uint64_t run) const noexcept {
  if (outer_.empty()) return 1;
  const std::uint64_t row = unsigned_of(outer_.back());
  return row - run % row;
}

void read_box(const TensorElements& elements, const BoxLayout& layout, std::uint64_t offset,
              std::span<std::byte> out, ReadBatch& batch) {
  const std::uint64_t length = layout.run_bytes();
  const std::uint64_t distance = layout.run_distance();
  const bool close = distance - length < kSmallGap && 2 * distance <= kWindowBytes;
  std::vector<std::byte> window;
  while (!out.empty()) {
    const std::uint64_t run = offset / length;
    const std::uint64_t column = offset % length;
    const std::uint64_t begin = layout.begin_of_run(run) + column;
    const std::uint64_t runs =
        column > 0 ? 1 : std::min(layout.runs_in_row(run), out.size() / length);
    if (!close || runs < 2) {
      const std::size_t bytes = std::min<std::uint64_t>(length - column, out.size());
      elements.view.read(begin, out.first(bytes), batch);
      out = out.subspan(bytes);
      offset += bytes;
      continue;
    }
    const std::uint64_t count = std::min(runs, kWindowBytes / distance);
    window.resize(static_cast<std::size_t>((count - 1) * distance + length));
    elements.view.read(begin, window, batch);
    for (std::uint64_t i = 0; i < count && !batch.lists(); ++i) {
      std::memcpy(out.data() + i * length, window.data() + i * distance, length);
    }
    out = out.subspan(static_cast<std::size_t>(count * length));
    offset += count * length;
  }
}

}  // namespace reshardfs
