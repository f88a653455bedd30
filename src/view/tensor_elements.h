// SPDX-License-Identifier: Apache-2.0
/// A box of a tensor's elements as one range of bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "plan/element_view.h"
#include "plan/foresight.h"

namespace reshardfs {

class BoxLayout;

/// What a tensor's bytes are made of.
struct TensorElements {
  std::string name;
  ElementView view;
  /// What the view points into; nullptr: it outlives the tensor.
  std::shared_ptr<const void> owner;
  /// Whose reads those of the tensor are. It may be read by many tensors, one after the other.
  std::shared_ptr<const ForeseenFile> reads;

  /// @throws Error kUnsupported with the parameter if the box cuts packed elements inside of a
  ///         byte.
  BoxLayout layout_of(const Shape& begin, const Shape& box) const;
};

/// How the bytes of a box lie in those of the tensor: runs of equal length, in C order.
class BoxLayout {
 public:
  /// @param tensor the shape of the whole; the box is inside.
  BoxLayout(const Shape& tensor, Shape begin, const Shape& box, std::uint64_t element_bytes);

  /// Whether the box is one range of the tensor's bytes, which begins at begin_of_run(0).
  bool is_one_run() const noexcept { return runs_ <= 1; }
  std::uint64_t run_bytes() const noexcept { return run_bytes_; }
  /// Byte of the tensor at which a run begins.
  std::uint64_t begin_of_run(std::uint64_t run) const noexcept;
  /// From `run` on: how many follow each other at the same distance, run_distance().
  std::uint64_t runs_in_row(std::uint64_t run) const noexcept;
  std::uint64_t run_distance() const noexcept { return run_distance_; }

 private:
  Shape begin_;
  Shape outer_;                       ///< of the box: the dimensions before those of a run
  std::vector<std::uint64_t> steps_;  ///< bytes of the tensor from one index to the next
  std::uint64_t run_bytes_ = 0;
  std::uint64_t run_distance_ = 0;
  std::uint64_t runs_ = 1;
};

/// Fills `out` with a box's bytes from byte `offset` on.
/// @throws as TensorView::read().
void read_box(const TensorElements& elements, const BoxLayout& layout, std::uint64_t offset,
              std::span<std::byte> out, ReadBatch& batch);

}  // namespace reshardfs
