// SPDX-License-Identifier: Apache-2.0
/// The tensors of a destination rank or of the whole model, as bytes without a file format.
///
///   const TensorSet tensors = conversion.tensors(Rank(3));
///   const Tensor weight = tensors.at("model.embed.weight");
///   weight.box({10, 0}, {20, weight.shape()[1]}).read(0, buffer);  // rows 10 to 19 alone
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reshardfs/dtype.h"
#include "reshardfs/export.h"
#include "reshardfs/shape.h"

namespace reshardfs {

/// What is known of a tensor without reading it.
struct TensorInfo {
  std::string name{};  ///< as in the destination
  DType dtype = DType::kFloat32;
  Shape shape{};            ///< the number of bytes for types that are not arrays
  std::uint64_t bytes = 0;  ///< of all elements
};

/// A tensor, or a box of one. Copies are cheap and share their state, which keeps the conversion's
/// sources open. Immutable: every member function may be called from any number of threads.
class RESHARDFS_EXPORT Tensor {
 public:
  const std::string& name() const noexcept;
  DType dtype() const noexcept;
  /// The number of bytes for types that are not arrays.
  const Shape& shape() const noexcept;
  /// Of all elements.
  std::uint64_t bytes() const noexcept;

  /// Fills all of `out` with the elements' bytes from byte `offset` on, in C order, little endian.
  /// Blocks on source I/O; allocates nothing in proportion to the tensor.
  /// @throws Error kUsage if the range leaves the tensor; kMissing if no file has a part of it; kIo
  ///         or kChanged if a source fails. Then the contents of `out` are unspecified.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

  /// The elements from `begin` up to, but not including, `end` in each dimension. Indices in a box
  /// of a box are relative to the outer box. Reads nothing.
  /// @throws Error kUsage if the box has another number of dimensions, or leaves the tensor.
  Tensor box(const Shape& begin, const Shape& end) const;

 private:
  struct State;
  friend class TensorSet;
  friend struct TensorAccess;
  explicit Tensor(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

/// The tensors of one destination rank, or of the whole model. Copies are cheap and share their
/// state, which keeps the conversion's sources open. Immutable: any number of threads may use it.
class RESHARDFS_EXPORT TensorSet {
 public:
  std::size_t size() const noexcept;
  /// In the order of the source, 0 <= index < size().
  /// @throws Error kUsage if there is no such index.
  TensorInfo info(std::size_t index) const;
  /// The index of the tensor with this name, or nullopt.
  std::optional<std::size_t> find(std::string_view name) const;

  /// Takes time in proportion to the slice's cuts; reads nothing.
  /// @throws Error kUsage if there is no such index.
  Tensor at(std::size_t index) const;
  /// @throws Error kMissing if there is no tensor of this name; the hint has the most similar name.
  Tensor at(std::string_view name) const;

 private:
  struct State;
  friend class Conversion;
  explicit TensorSet(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace reshardfs
