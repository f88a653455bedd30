// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/byte_range.h"

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

}  // namespace reshardfs
