// SPDX-License-Identifier: Apache-2.0
/// The tensors in archives of torch.save.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/byte_range.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// A tensor as it lies in its storage: the element at index i is at storage.offset() +
/// (first + sum(i[d] * strides[d])) * element_size(dtype), and inside of the storage.
struct TorchTensor {
  std::string name;  ///< empty if the archive is one tensor
  DType dtype = DType::kFloat32;
  Shape shape;
  Shape strides;  ///< in elements
  std::int64_t first = 0;
  ByteRange storage;  ///< in the source; tensors may share one
};

/// The tensor of an archive that is just one.
/// @param place of the archive in the source.
/// @throws Error as TorchZip, and if it is anything else, or does not fit its storage; kUnsupported
///         if its type has no counterpart.
TorchTensor read_torch_tensor(const ByteSource& source, const ByteRange& place);
/// Those of an archive that is a dictionary of tensors.
/// @param takes the names of those that are wanted; of the others nothing is looked at. Empty: all.
/// @throws Error as above.
std::vector<TorchTensor> read_torch_tensors(
    const ByteSource& source, const ByteRange& place,
    const std::function<bool(std::string_view)>& takes = {});

/// Whether the elements lie one behind the other in C order.
bool is_contiguous(const TorchTensor& tensor) noexcept;

}  // namespace reshardfs
