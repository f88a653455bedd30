// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/torch/torch_zip_tensors.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// Reads bytes of a tensor in C order, however it lies in its storage: transposed, permuted, with
/// gaps. Memory is bounded, whatever the tensor's size.
/// @param offset in bytes of the tensor's content.
/// @throws what the source throws.
void read_strided(const ByteSource& source, const TorchTensor& tensor, std::uint64_t offset,
                  std::span<std::byte> out);

}  // namespace reshardfs
