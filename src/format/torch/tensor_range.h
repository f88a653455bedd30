// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/byte_range.h"
#include "base/content_size.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// Bytes of a tensor's elements. @throws Error as content_size().
inline std::uint64_t content_bytes(const Shape& shape, DType dtype) {
  return static_cast<std::uint64_t>(content_size(shape, dtype, "the size of a tensor"));
}

/// Where the elements of a contiguous tensor are in the source.
inline ByteRange contiguous_range(const TorchTensor& tensor) {
  const auto first = static_cast<std::uint64_t>(tensor.first * element_size(tensor.dtype));
  return {tensor.storage.offset() + first, content_bytes(tensor.shape, tensor.dtype)};
}

}  // namespace reshardfs
