// SPDX-License-Identifier: Apache-2.0
/// A tensor of PyTorch: where its elements are, and what it may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/byte_range.h"
#include "base/content_size.h"

namespace reshardfs {

/// A tensor as it lies in its storage: the element at index i is at storage.offset() +
/// (first + sum(i[d] * strides[d])) * element_size(dtype), and inside of the storage.
struct TorchTensor {
  std::string name{};  ///< empty if the archive is one tensor
  DType dtype = DType::kFloat32;
  Shape shape{};
  Shape strides{};  ///< in elements
  std::int64_t first = 0;
  ByteRange storage{};  ///< in the source; tensors may share one
};

/// Whether the elements lie one behind the other in C order.
bool is_contiguous(const TorchTensor& tensor) noexcept;

/// Bytes of a tensor's elements. @throws Error as content_size().
inline std::uint64_t content_bytes(const Shape& shape, DType dtype) {
  return static_cast<std::uint64_t>(content_size(shape, dtype, "the size of a tensor"));
}

/// Where the elements of a contiguous tensor are in the source.
inline ByteRange contiguous_range(const TorchTensor& tensor) {
  const auto first = static_cast<std::uint64_t>(tensor.first * element_size(tensor.dtype));
  return {tensor.storage.offset() + first, content_bytes(tensor.shape, tensor.dtype)};
}

/// More than this is a damaged file.
inline constexpr std::size_t kMostTorchDimensions = 64;
inline constexpr std::int64_t kMostTorchElements = 1LL << 62U;
/// A pickle of torch.save has some hundred bytes for each tensor, and is held several times over
/// while it is read.
inline constexpr std::uint64_t kMostSavedPickle = 64ULL << 20U;

}  // namespace reshardfs
