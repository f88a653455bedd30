// SPDX-License-Identifier: Apache-2.0
/// How a tensor stands in the pickle of torch.save.
#pragma once

#include <cstdint>
#include <string_view>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "format/torch/pickle_writer.h"

namespace reshardfs {

/// Whether torch has the type, and a pickle can state it.
bool is_torch_dtype(DType dtype) noexcept;

/// Bytes of a tensor. @throws Error kBadInput if they are too many.
std::uint64_t torch_bytes(DType dtype, const Shape& shape);

/// Pushes a tensor in C order, which is all of a storage.
/// @param dtype for which is_torch_dtype().
/// @param key of the storage, which has torch_bytes(): the entry's name behind "data/".
void put_tensor(PickleWriter& out, DType dtype, const Shape& shape, std::string_view key);

}  // namespace reshardfs
