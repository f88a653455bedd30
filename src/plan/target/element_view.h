// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "reshardfs/dtype.h"

#include "plan/target/tensor_view.h"

namespace reshardfs {

/// A destination slice's bytes in the element type of the destination.
class ElementView {
 public:
  /// @param dtype another type than the source's only if cast.h can convert to it.
  ElementView(TensorView view, DType dtype);
  /// @param through of two conversions that follow upon each other, the type between them: each of
  ///        them rounds. The source's or the destination's: there is one at most.
  ElementView(TensorView view, DType through, DType dtype);

  const TensorView& view() const noexcept { return view_; }
  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return view_.shape(); }
  std::uint64_t size() const noexcept { return size_; }

  /// As TensorView::whole_cell(): the elements' bytes must be those of the source, too.
  Holding whole_cell() const { return convert_ ? Holding{} : view_.whole_cell(); }

  /// As TensorView::for_each_use() and TensorView::box().
  void for_each_use(const ByteRange& bytes, SourceSink& sink) const;
  ElementView box(const Shape& begin, const Shape& sizes) const {
    return {view_.box(begin, sizes), through_, dtype_};
  }

  /// As TensorView::read(). Each thread that converts elements keeps up to 192 KiB for it.
  void read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;

 private:
  void read_converted(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;

  TensorView view_;
  DType through_;
  DType dtype_;
  bool convert_;
  std::uint64_t size_;
};

}  // namespace reshardfs
