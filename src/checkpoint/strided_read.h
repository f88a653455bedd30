// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/appended_source.h"
#include "format/torch/torch_tensor.h"
#include "format/torch/torch_zip_tensors.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// Reads bytes of a tensor in C order, even if it is stored transposed, permuted or with gaps. It
/// uses a bounded amount of memory for tensors of any size.
/// @param part of the tensor's content.
/// @throws errors of the source.
void read_strided(const ByteSource& source, const TorchTensor& tensor, const ReadRequest& part);

/// A file, and behind its end tensors of it in C order that lie in another order in the file:
/// transposed, with gaps, or several times the same elements.
class InOrderSource final : public AppendedSource {
 public:
  using AppendedSource::AppendedSource;

  /// See append().
  ByteRange add(TorchTensor tensor);
};

}  // namespace reshardfs
