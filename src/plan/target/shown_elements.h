// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "reshardfs/dtype.h"

#include "plan/target/shown_tensor.h"

namespace reshardfs {

/// A destination slice's bytes in the element type of the destination.
class ShownElements {
 public:
  /// @param dtype the source's type, or one to which cast.h can convert it.
  ShownElements(ShownTensor view, DType dtype);
  /// @param through the intermediate type of two successive conversions, each of which rounds. If
  ///        it is the source's or the destination's type, there is at most one conversion.
  ShownElements(ShownTensor view, DType through, DType dtype);

  const ShownTensor& view() const noexcept { return view_; }
  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return view_.shape(); }
  std::uint64_t size() const noexcept { return size_; }

  /// Like ShownTensor::whole_cell(), but empty if elements are converted.
  Holding whole_cell() const { return convert_ ? Holding{} : view_.whole_cell(); }

  /// As ShownTensor::for_each_use() and ShownTensor::box().
  void for_each_use(const ByteRange& bytes, SourceSink& sink) const;
  /// Appends where sources have a range unchanged, in any order.
  /// @param place of the range in a destination file, for the result.
  /// @param least bytes of one of several pieces that lie apart from each other.
  void add_unchanged(const ByteRange& bytes, std::uint64_t place, std::uint64_t least,
                     std::vector<StoredRange>& out) const;
  ShownElements box(const Shape& begin, const Shape& sizes) const {
    return {view_.box(begin, sizes), through_, dtype_};
  }

  /// As ShownTensor::read(). Each thread that converts elements keeps up to 192 KiB for it.
  void read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;

 private:
  void read_converted(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;

  ShownTensor view_;
  DType through_;
  DType dtype_;
  bool convert_;
  std::uint64_t size_;
};

}  // namespace reshardfs
