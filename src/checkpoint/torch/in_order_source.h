// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/appended_source.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// A file, and behind its end tensors of it in C order that lie in another order in the file:
/// transposed, with gaps, or several times the same elements.
class InOrderSource final : public AppendedSource {
 public:
  using AppendedSource::AppendedSource;

  /// See append().
  ByteRange add(TorchTensor tensor);
};

}  // namespace reshardfs
